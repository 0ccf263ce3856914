"""Other tools' logs of iterations, read into a `Profile`.

`registry.FORMATS` holds the formats by name, one a file; `ingest.ingest` reads one and cuts it into sessions.
Nothing is imported here.
"""
