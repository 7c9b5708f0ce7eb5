"""Rules of users: derivatives, and calls back into Python.

From the ground up:

    callbacks           Calling Python functions from compiled programs, for their
                        results
    rules_on_values     Rules of the user's in a derivative that is not jitted: they run
                        with values
    reference_rules     `custom_vjp` of functions that are given references
    custom_derivatives  custom_jvp and custom_vjp: functions whose derivative the user
                        writes
    closure_convert     Closures as arguments, gradients in place of rules, transposes
                        by hand
"""
