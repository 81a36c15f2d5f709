"""What is in model files: python examples/inspect_files.py [FILE ...].

Without a file it shows the small model that ships with mtkit.
"""

import sys

import mtkit

paths = sys.argv[1:] or [mtkit.__path__[0] + "/data/default-model.gguf"]
for path in paths:
    try:
        what = mtkit.inspect(path)
    except mtkit.MtkitError as error:
        print(error)
        continue
    for key in ("kind", "format", "architecture", "parameters", "bytes"):
        if what.get(key) is not None:
            print(f"{path}: {key} {what[key]}")
    for finding in mtkit.check(path).findings:
        print(f"{path}: {finding}")
