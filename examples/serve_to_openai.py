"""A server of mtkit, asked by the openai client: python examples/serve_to_openai.py [MODEL.gguf].

Needs the extras generate and serve, and the package openai.
"""

import re
import subprocess
import sys

from openai import OpenAI

command = [sys.executable, "-m", "mtkit", "serve", "--port", "0"]
if sys.argv[1:]:
    command += ["-m", sys.argv[1]]
server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
try:
    for line in server.stdout:
        if address := re.search(r"http://\S+", line):
            break
    else:
        sys.exit("the server did not start")
    client = OpenAI(base_url=f"{address[0].rstrip('/')}/v1", api_key="none")
    asked = {"model": "any", "max_tokens": 16, "temperature": 0}
    print(client.completions.create(prompt="To list files, use", **asked).choices[0].text)
    for chunk in client.completions.create(prompt="The file", stream=True, **asked):
        print(chunk.choices[0].text, end="", flush=True)
    print()
finally:
    server.terminate()
    server.wait()
