"""ROOT of `trimtab setup`: Grafana, Prometheus and Alertmanager made to know trimtab, by files or by Grafana's API.

Imported by the command line only; the part that talks to Grafana's API (`push.py`) runs in a process of its own.
"""
