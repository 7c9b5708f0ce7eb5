"""How arrays lie on devices: JAX's `sharding`, as far as one device goes."""

from ftrace.ground.missing_names import tell_missing
from ftrace.transforms.mapped import (
    auto_axes as auto_axes,
    explicit_axes as explicit_axes,
    reshard as reshard,
)
from ftrace.transforms.meshes import (
    AbstractDevice as AbstractDevice,
    AbstractMesh as AbstractMesh,
    AxisType as AxisType,
    Mesh as Mesh,
    PartitionSpec as PartitionSpec,
    get_abstract_mesh as get_abstract_mesh,
    get_mesh as get_mesh,
    set_mesh as set_mesh,
    use_abstract_mesh as use_abstract_mesh,
)
from ftrace.transforms.shardings import (
    NamedSharding as NamedSharding,
    Sharding as Sharding,
    SingleDeviceSharding as SingleDeviceSharding,
    make_single_device_sharding as make_single_device_sharding,
)

tell_missing(__name__)
