"""Dashboards as code: `python -m dashboards.build` writes the JSON that lies beside this and is shipped."""

import warnings

with warnings.catch_warnings():
    # The SDK would rather see dashboards of schema v2, which only the newest Grafana reads from files; the classic one
    # is read by all of them.
    warnings.simplefilter("ignore", DeprecationWarning)
    import grafana_foundation_sdk.builders.bargauge
    import grafana_foundation_sdk.builders.dashboard  # noqa: F401 - each schema warns once, on its first import
