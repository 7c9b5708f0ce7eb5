"""The page of `viz` in a browser: what the pointer and the keys do, and how soon."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ftrace as ft
import ftrace.numpy as fnp
from ftrace import lax
from ftrace.sharding import AxisType, NamedSharding, PartitionSpec as P

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: Seconds in which a page of 5,000 nodes is there.
SOON = 2.0


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    """A browser without a window, of which all that goes wrong is noted."""
    webdriver = pytest.importorskip("selenium.webdriver")
    service = pytest.importorskip("selenium.webdriver.chrome.service")
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    helper = shutil.which("chromedriver")
    if program is None or helper is None:
        pytest.skip("no Chromium, or no chromedriver: apt install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in (
        "headless=new", "no-sandbox", "disable-dev-shm-usage", "window-size=1500,900"
    ):  # fmt: skip
        options.add_argument(f"--{argument}")
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    made = webdriver.Chrome(options=options, service=service.Service(helper))
    yield made
    made.quit()


class Page:
    """A page that is open.

    Args:
      driver: the browser.
      picture: what it has opened.
    """

    def __init__(self, driver: Any, picture: Any) -> None:
        self.driver = driver
        driver.get(picture.path.as_uri())

    def run(self, script: str, *args: Any) -> Any:
        return self.driver.execute_script(script, *args)

    def texts(self, selector: str) -> list[str]:
        """Of all such elements the texts; of a box that is its title."""
        return self.run(
            "return [...document.querySelectorAll(arguments[0])].map("
            "e => (e.querySelector('.title, code') ?? e).textContent.trim())",
            selector,
        )

    def hover(self, selector: str, text: str = "") -> None:
        """Moves the pointer to the first such element with a text in it."""
        chains = pytest.importorskip("selenium.webdriver").ActionChains
        chains(self.driver).move_to_element(self.find(selector, text)).perform()

    def click(self, selector: str, text: str = "") -> None:
        chains = pytest.importorskip("selenium.webdriver").ActionChains
        chains(self.driver).move_to_element(self.find(selector, text)).click().perform()

    def boxes(self) -> list[str]:
        """The titles of all boxes, those that are out of sight, too."""
        return self.run("return drawn.boxes.map(box => box.title)")

    def find(self, selector: str, text: str) -> Any:
        found = self.run(
            "return [...document.querySelectorAll(arguments[0])].find("
            "e => e.textContent.includes(arguments[1]))",
            selector,
            text,
        )
        assert found is not None, f"no {selector} with {text!r}"
        return found

    def press(self, *keys: str) -> None:
        known = pytest.importorskip("selenium.webdriver").Keys
        chains = pytest.importorskip("selenium.webdriver").ActionChains
        for key in keys:
            chains(self.driver).send_keys(getattr(known, key, key)).perform()

    def step(self) -> str:
        return self.run("return document.querySelector('[aria-current] b').textContent")

    def log(self, kind: str) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log(kind)]


def layer(w: Any, x: Any) -> Any:
    h = x @ w
    scaled = fnp.tanh(fnp.where(h > 0, h, h)) * 1.0
    return scaled - scaled.mean()


W, X = fnp.ones((64, 32)), fnp.ones((96, 64))
LINES = [
    "h = x @ w",
    "scaled = fnp.tanh(fnp.where(h > 0, h, h)) * 1.0",
    "return scaled - scaled.mean()",
]


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return ft.viz(layer, tmp_path_factory.mktemp("viz"), show=False)(W, X)


@pytest.fixture
def page(driver: Any, picture: Any) -> Page:
    return Page(driver, picture)


def test_a_line_lights_its_nodes_and_statements(page: Page) -> None:
    page.press("ARROW_RIGHT", "c")
    page.click(".kernel", "sub_")
    page.press("ESCAPE")
    page.hover(".row", LINES[1])
    assert page.texts(".row.lit") == [LINES[1]]
    assert page.texts(".box.lit") == ["tanh"]
    assert {text.split()[2] for text in page.texts(".statement.lit")} == {"tanh"}
    page.hover("#search")
    assert not page.texts(".lit")


def test_a_node_lights_its_line_statement_and_kernel(page: Page) -> None:
    page.press("ARROW_RIGHT", "c")
    page.click(".kernel", "sub_")
    page.press("ESCAPE")
    page.hover(".box", "tanh")
    assert page.texts(".box.lit") == ["tanh"]
    assert page.texts(".row.lit") == [LINES[1]]
    assert {text.split()[2] for text in page.texts(".statement.lit")} == {"tanh"}
    (kernel,) = page.texts(".kernel.lit")
    assert kernel.startswith("sub_")


def test_a_statement_lights_its_node_and_line(page: Page) -> None:
    page.press("ARROW_RIGHT", "c")
    page.click(".kernel", "sub_")
    page.press("ESCAPE")
    page.hover(".statement", "tanh")
    assert page.texts(".box.lit") == ["tanh"]
    assert page.texts(".row.lit") == [LINES[1]]
    page.hover(".statement", "load buffer")
    assert page.texts(".row.lit") == [LINES[0]]
    page.hover(".statement", "reduce")
    assert page.texts(".row.lit") == [LINES[2]]


def test_what_is_clicked_stays_lit_until_escape(page: Page) -> None:
    page.click(".row", LINES[0])
    page.hover("#search")
    assert page.texts(".row.lit") == [LINES[0]]
    assert len(page.texts(".box.lit")) > 3
    page.press("ESCAPE")
    assert not page.texts(".lit")


def test_keys_walk_the_passes_forward_and_back(page: Page, picture: Any) -> None:
    names = ["traced", *[name for name, _ in picture.explained.passes], "kernels"]
    walked = [page.step()]
    for _ in names[1:]:
        page.press("ARROW_RIGHT")
        walked.append(page.step())
    assert walked == names
    page.press("ARROW_RIGHT")
    assert page.step() == "kernels"
    for name in reversed(names[:-1]):
        page.press("ARROW_LEFT")
        assert page.step() == name
    page.press("2")
    assert page.step() == names[1]
    page.click("#steps button", "kernels")
    assert page.step() == "kernels"


def test_a_pass_shows_what_came_and_what_went(page: Page) -> None:
    page.press("2")
    assert page.step() == "simplify"
    after = set(page.texts(".box.added"))
    assert not page.texts(".box.removed")
    page.press("b")
    assert any(title.startswith("mul 1.0") for title in page.texts(".box.removed"))
    assert not page.texts(".box.added")
    page.press("b")
    assert set(page.texts(".box.added")) == after


def test_rules_that_fired_are_walked_and_lit(page: Page) -> None:
    page.press("2", "b", "ARROW_DOWN")
    first = page.texts(".firing.chosen .rule")
    assert len(first) == 1
    rules = page.texts(".firing .rule")
    for _ in rules[1:]:
        page.press("ARROW_DOWN")
    assert page.texts(".firing.chosen .rule") == rules[-1:]
    for _ in rules[1:]:
        page.press("ARROW_UP")
    assert page.texts(".firing.chosen .rule") == first
    page.hover(".firing", "fold_mul_one")
    assert any("mul" in title for title in page.texts(".box.lit"))
    page.click(".chip", "fold_mul_one")
    assert page.texts(".firing .rule") == ["fold_mul_one"] != rules


def test_dark_mode_follows_the_system_and_a_key(driver: Any, picture: Any) -> None:
    def theme(page: Page) -> tuple[str, str]:
        return tuple(page.run(
            "const s = getComputedStyle(document.body);"
            "return [document.documentElement.dataset.theme, s.backgroundColor]"
        ))  # fmt: skip

    def prefer(value: str) -> None:
        feature = {"name": "prefers-color-scheme", "value": value}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    prefer("dark")
    page = Page(driver, picture)
    dark = theme(page)
    page.press("d")
    light = theme(page)
    assert (dark[0], light[0]) == ("dark", "light")
    assert dark[1] != light[1]
    again = Page(driver, picture)
    assert theme(again) == light  # it was chosen
    page.run("localStorage.clear()")
    prefer("light")
    assert theme(Page(driver, picture)) == light


def test_all_can_be_done_with_keys(page: Page) -> None:
    page.press("j")
    (first,) = page.texts(".box.chosen")
    page.press("j", "j", "k", "k")
    assert page.texts(".box.chosen") == [first]
    assert page.texts("#tabs [aria-selected=true]") == ["Node"]
    page.press("/", *"tanh", "ENTER")
    assert page.texts(".box.chosen") == ["tanh"]
    page.press("ESCAPE", "?")
    assert page.run("return document.querySelector('#keys').open")
    page.press("ESCAPE")
    assert not page.run("return document.querySelector('#keys').open")
    before = page.run("return eye.scale")
    page.press("-")
    assert page.run("return eye.scale") < before
    page.press("p")
    assert page.texts("#tabs [aria-selected=true]") == ["Pass"]


@pytest.mark.parametrize("word", ["softmax", "div", "relu"])
def test_what_is_searched_for_in_a_folded_region_is_chosen(
    word: str, driver: Any, tmp_path: Path
) -> None:
    def attend(x: Any, w: Any) -> Any:
        return ft.nn.softmax(ft.nn.relu(x @ w) @ w)

    args = fnp.ones((8, 8)), fnp.ones((8, 8))
    page = Page(driver, ft.viz(attend, tmp_path, show=False)(*args))
    page.log("browser")
    for step in ("HOME", "END"):
        page.press(step, "/", *word, "ENTER", "ENTER")
        node = (
            "return state.chosen.items.some(item => item.node === state.found.at(-1))"
        )
        assert page.run(node)
        page.run("paint()")
        assert page.texts(".box.chosen")  # in sight
        page.press("ESCAPE")
        page.run("document.activeElement.blur()")
    page.run("document.querySelector('#search').value = ''")
    page.press("HOME", "/", *word)
    page.run("goTo(steps.length - 1)")
    page.press("ENTER")  # what is found in the step that is shown now
    shown = "return state.found.every(n => view.items.some(item => item.node === n))"
    assert page.run(shown)
    assert not page.log("browser")


def test_the_text_of_a_line_is_searched_where_nothing_else_has_it(page: Page) -> None:
    found = "search(arguments[0]); return state.found.map(n => describe(n))"
    assert page.run(found, "tanh") == page.run(found, "tanh(")
    assert len(page.run(found, "fnp.tanh")) > 2  # of the line
    node = page.run("return view.items.at(-1).node")
    page.run("search(arguments[0])", f"%{node}")
    assert page.run("return state.found[0]") == node


INPUTS = "return drawn.boxes.filter(b => b.kind === 'input').map(b => b.title)"


def test_inputs_of_bodies_are_named_by_what_they_get(
    driver: Any, tmp_path: Path
) -> None:
    def nested(w: Any, xs: Any) -> Any:
        def outer(c: Any, x: Any) -> Any:
            inner = lax.scan(lambda d, y: (d * w + fnp.sin(y), None), fnp.cos(c), x)[0]
            return inner, None

        return lax.scan(outer, fnp.zeros(8), xs)[0]

    picture = ft.viz(nested, tmp_path, show=False)(fnp.ones(8), fnp.ones((3, 40, 8)))
    page = Page(driver, picture)
    outside = page.boxes()
    for names in ({"w", "xs[i]"}, {"w", "xs[i][i]"}):
        page.click(".box", "scan")
        page.press("ENTER")
        shown = set(page.run(INPUTS))
        assert names < shown
        assert [name.partition(" ")[0] for name in shown - names] == ["from"]
    page.press("ESCAPE", "ESCAPE")
    assert page.boxes() == outside


def test_bodies_of_loops_are_entered_and_left(driver: Any, tmp_path: Path) -> None:
    def scanned(start: Any, x: Any) -> Any:
        return lax.scan(lambda c, row: (fnp.sin(c) * row, c), start, x)

    page = Page(driver, ft.viz(scanned, tmp_path, show=False)(X[0], X))
    page.click(".box", "scan")
    page.press("ENTER")
    assert "sin" in page.texts(".box")
    assert "scan body 1" in page.texts("#about b")[0]
    assert page.run(INPUTS) == ["start", "x[i]"]
    page.press("ESCAPE")
    assert "sin" not in page.texts(".box")


def looped(x: Any) -> Any:
    def body(c: Any, row: Any) -> Any:
        turned = fnp.sin(c @ x)
        return turned * row, turned

    return lax.scan(body, x[0], x)


def test_statements_in_bodies_light_nodes_and_lines(
    driver: Any, tmp_path: Path
) -> None:
    page = Page(driver, ft.viz(looped, tmp_path, show=False)(fnp.ones((40, 40))))
    page.press("END", "c")
    page.click(".kernel", "sin")
    page.press("ESCAPE")
    page.hover(".statement", "sin")
    assert page.texts(".row.lit") == ["turned = fnp.sin(c @ x)"]
    (loop,) = page.texts(".box.lit")  # in which the body is
    assert loop.startswith("loop")
    page.click(".box.lit")
    page.press("ENTER", "c")
    assert "body 1" in page.texts("#about b")[0]
    page.hover(".statement", "sin")
    assert page.texts(".box.lit") == ["sin"]
    page.hover(".box", "sin")
    computed, stored = page.texts(".statement.lit")
    assert " = sin " in computed
    assert stored.startswith("buffer")
    assert page.texts(".row.lit") == ["turned = fnp.sin(c @ x)"]


def test_collectives_are_listed_and_light_their_nodes(
    driver: Any, tmp_path: Path
) -> None:
    with ft.config(cpu_devices=4):
        mesh = ft.make_mesh((4,), ("rows",), axis_types=(AxisType.Auto,))
        x = ft.device_put(fnp.ones((8, 4)), NamedSharding(mesh, P("rows")))
        picture = ft.viz(lambda x: fnp.exp(x.sum(0)), tmp_path, show=False)(x)
    page = Page(driver, picture)
    page.click("#steps button", "per device")
    assert page.texts("#tabs [aria-selected=true]") == ["Collectives"]
    assert page.texts(".firing .rule") == ["psum over rows"]
    page.hover(".firing", "psum")
    (box,) = page.texts(".box.lit")
    assert box.startswith("psum")


def deep(w: Any, x: Any) -> Any:
    for _ in range(8):
        x = layer(w, x)
    return x


def test_regions_unfold_and_fold_again(driver: Any, tmp_path: Path) -> None:
    page = Page(driver, ft.viz(deep, tmp_path, show=False)(fnp.ones((8, 8)), X[:, :8]))
    folded = page.boxes()
    assert folded.count("matmul") >= 8  # what all have of w is a region, too
    assert folded.count("mean") == 8
    page.press("j", "j", "j", "ENTER")
    assert len(page.boxes()) > len(folded)
    (frame,) = page.texts(".frame text")
    assert frame.startswith("▾ ma")
    page.click(".frame text")
    assert page.boxes() == folded
    page.press("u")
    assert "matmul" not in page.boxes()
    page.press("u")
    assert page.boxes() == folded


def test_lines_unfold_to_their_calls(driver: Any, tmp_path: Path) -> None:
    def attend(w: Any, x: Any) -> Any:
        h = x @ w
        return ft.nn.softmax(h * 2.0)

    args = fnp.ones((8, 8)), fnp.ones((4, 8))
    page = Page(driver, ft.viz(attend, tmp_path, show=False)(*args))
    page.run("Object.assign(MOST, { node: 0, call: 0 }); showGraph()")  # many more
    assert page.run("return view.folded") == "line"
    line = "return ft.nn.softmax(h * 2.0)"
    assert sorted(page.boxes()) == ["matmul", line, "w", "x"]
    page.run("fold(drawn.boxes.find(box => box.title === arguments[0]).key)", line)
    assert sorted(page.boxes()) == ["matmul", "mul 2.0", "softmax", "w", "x"]
    (frame,) = page.texts(".frame text")
    assert frame.startswith("▾ return")  # the rest may be cut


def test_unfolding_all_keeps_what_is_chosen_in_its_place(
    driver: Any, tmp_path: Path
) -> None:
    page = Page(driver, ft.viz(deep, tmp_path, show=False)(fnp.ones((8, 8)), X[:, :8]))
    where = """
        const { x, y, items } = state.chosen;
        return [eye.x + x * eye.scale, eye.y + y * eye.scale, items.length];
    """
    note = "return document.querySelector('#note').textContent"
    assert page.run(note).startswith(f"{len(page.boxes())} boxes")
    page.press("j", "j", "j", "n")
    *place, nodes = page.run(where)
    assert nodes > 1
    assert "▸ unfold" in page.texts("#panel .link")
    page.press("u")
    *now, nodes = page.run(where)
    assert nodes == 1
    assert now == pytest.approx(place)
    assert "▸ unfold" not in page.texts("#panel .link")
    assert page.run(note).startswith(f"{len(page.boxes())} boxes")


def branches(x: Any, scales: Any) -> Any:
    return sum(fnp.tanh(x * scale).sum() for scale in scales)


def test_a_wide_graph_is_shown_in_a_size_that_can_be_read(
    driver: Any, tmp_path: Path
) -> None:
    """Its first view has boxes side by side from edge to edge; a map has the rest."""
    scales = [fnp.float32(i) for i in range(40)]
    page = Page(driver, ft.viz(branches, tmp_path, show=False)(X[0], scales))
    shown = """
        const { width, height } = graphPane.getBoundingClientRect();
        const at = (box) => [eye.x + box.x * eye.scale, eye.y + box.y * eye.scale];
        const inside = drawn.boxes.filter((box) => {
            const [x, y] = at(box);
            return x > 0 && y > 0 && x < width && y < height;
        });
        const left = Math.min(...inside.map((box) => at(box)[0]));
        const right = Math.max(...inside.map((box) => at(box)[0]));
        return [inside.length / drawn.boxes.length, left / width, right / width];
    """
    for keys in ((), ("u",), ("f",)):
        page.press(*keys)
        if keys == ("u",):
            page.run("fit(false)")
        page.run("paint()")
        assert page.run("return eye.scale") >= 0.45
        part, left, right = page.run(shown)
        assert part > 0.05
        assert left < 0.35
        assert right > 0.65


@pytest.mark.parametrize("size", [(1400, 900), (800, 600), (420, 800)])
def test_nothing_lies_over_another_thing_in_any_window(
    size: tuple[int, int], driver: Any, picture: Any
) -> None:
    """The code has room, counts are beside it, the title is over no box."""
    shape = {
        "width": size[0],
        "height": size[1],
        "deviceScaleFactor": 1,
        "mobile": False,
    }
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    try:
        page = Page(driver, picture)
        sides = """
            const found = [...document.querySelectorAll(arguments[0])];
            return found.map(e => { const r = e.getBoundingClientRect();
                                    return [r.left, r.top, r.right, r.bottom]; });
        """
        counts = page.run(sides, ".row.known .count")
        codes = page.run(sides, ".row.known code")
        assert len(counts) == len(codes) == len(LINES)
        for count, code in zip(counts, codes, strict=True):
            assert count[2] <= code[0]
        assert page.run("return document.documentElement.scrollWidth") <= size[0]
        for left, top, right, bottom in page.run(sides, "main > section"):
            assert right - left >= 300
            assert bottom - top >= 150
            assert right <= size[0]
            assert bottom <= size[1]
        (about,) = page.run(sides, "#about")
        assert about[3] <= min(top for _, top, _, _ in page.run(sides, ".box"))
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_map_moves_the_window(driver: Any, tmp_path: Path) -> None:
    def long(x: Any) -> Any:
        for i in range(60):
            x = fnp.sin(x) * (i + 1.5)
        return x

    page = Page(driver, ft.viz(long, tmp_path, show=False)(X[0]))
    hidden = "return document.querySelector('#map').hasAttribute('hidden')"
    assert page.run(hidden)  # all of it is there
    page.press("u")
    page.run("fit(false); paint()")
    assert not page.run(hidden)
    page.press("j", "f")
    chains = pytest.importorskip("selenium.webdriver").ActionChains
    chains(driver).move_to_element_with_offset(
        page.find("#map", ""), 0, 45
    ).click().perform()
    page.run("paint()")
    assert page.run("return live.has(drawn.byPlace.at(-1))")
    assert page.texts(".box.chosen") == []  # out of sight, and yet chosen
    assert page.run("return state.chosen !== null")


CHECK = """
const wrong = [];
for (const before of [false, true]) for (let i = 0; i < steps.length; i++) {
  const shown = viewOf(i, before && steps[i].before >= 0, null);
  for (let round = 0; round < 30; round++) {  // each folds other regions
    const of = (key) => 7 * key.length + key.charCodeAt(key.length - 1);
    const some = (key) => of(key) % 31 <= round;
    const { boxes } = boxesOf(shown, some);
    const items = boxes.flatMap((box) => box.items);
    const all = inOrder(boxes).length === boxes.length;
    if (!all || items.length < shown.items.length) wrong.push([i, before, round]);
  }
}
return wrong;
"""


@pytest.mark.parametrize("most", [{}, {"call": 5}, {"call": 5, "line": 5}])
def test_no_way_leads_out_of_a_region_and_back(
    most: dict[str, int], driver: Any, tmp_path: Path
) -> None:
    def loss(w: Any, x: Any) -> Any:
        probabilities = ft.nn.softmax(deep(w, x) @ w + x.sum(0), axis=0)
        return (ft.nn.gelu(probabilities[:, 1:]) * x[:, 1:]).var()

    args = fnp.ones((8, 8)), X[:, :8]
    page = Page(driver, ft.viz(ft.value_and_grad(loss), tmp_path, show=False)(*args))
    page.run("Object.assign(MOST, arguments[0])", most)  # as if there were many more
    assert page.run(CHECK) == []


def test_nothing_is_asked_for_and_nothing_goes_wrong(page: Page, picture: Any) -> None:
    page.log("performance")
    page.log("browser")
    page.driver.get(picture.path.as_uri())
    page.press("ARROW_RIGHT", "ARROW_RIGHT", "c", "n", "p", "u", "f", "j", "d", "d")
    sent = [text for text in page.log("performance") if 'requestWillBeSent"' in text]
    assert len(sent) == 1  # the page itself
    assert not page.log("browser")
    assert not page.run("return performance.getEntriesByType('resource').length")


def chain(x: Any) -> Any:
    for _ in range(1250):
        x = fnp.sin(x) * 1.5
        x = x + fnp.cos(x)
    return x


def layers(x: Any) -> Any:
    """As many nodes, in many lines and functions."""

    def one(x: Any, i: int) -> Any:
        y = fnp.tanh(x * i) + x
        z = fnp.exp(-y * y)
        return z / (1 + fnp.abs(y)) + fnp.maximum(z, x)

    total = x
    for i in range(560):
        total = one(total, i)
    return total


@pytest.mark.thorough
@pytest.mark.parametrize("fun", [chain, layers])
def test_five_thousand_nodes_are_there_soon(
    fun: Callable[..., Any], driver: Any, tmp_path: Path
) -> None:
    struct = ft.ShapeDtypeStruct((16,), np.float32)
    picture = ft.viz(fun, tmp_path, show=False)(struct)
    assert len(picture.explained.graph.nodes) >= 5000
    opened: list[float] = []
    for _ in range(3):  # the machine has other things to do, too
        page = Page(driver, picture)
        opened.append(page.run(
            "return performance.getEntriesByType('navigation')[0].loadEventEnd / 1e3"
        ))  # fmt: skip
    assert 0 < min(opened) < SOON
    assert 2 <= len(page.boxes()) < 400
    took = page.run(
        "const start = performance.now(); unfoldAll();"
        "return [(performance.now() - start) / 1e3, drawn.boxes.length]"
    )
    assert took[0] < SOON
    assert took[1] > 4000
    page.press("ARROW_RIGHT", "f", "j")
    assert page.texts(".box.chosen")
