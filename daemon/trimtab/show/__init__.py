"""Stage 7, show: metrics, the HTTP API and the page."""
