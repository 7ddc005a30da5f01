"""Hooks of MkDocs: notebooks become pages, and code in text wraps between words only.

The page of a notebook has its Markdown, its code and the outputs that are stored in it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

#: Blocks of code, which scroll, and code in text, which wraps.
_BLOCK = re.compile(r"(?s)(<pre.*?</pre>)")
_CODE = re.compile(r"(?s)<code[^>]*>.*?</code>")
#: Signs after which code may wrap, outside of tags and not at the end of the code.
_SIGN = re.compile(r"([._=/,)(|]+)(?=[^<>._=/,)(|])")
#: An option of a command, which stays whole.
_OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
#: What pandas writes around a table, so that it looks like no other table of the site.
_PANDAS = re.compile(r'(?s)<style scoped>.*?</style>\n| border="1" class="dataframe"')


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook."""
    for file in list(files):
        if file.src_uri.endswith(".ipynb"):
            name = file.src_uri.removesuffix(".ipynb")
            content = page_of(json.loads(file.content_string), file.name)
            files.append(File.generated(config, f"{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Return a page whose links to notebooks lead to their pages."""
    if page.file.generated_by is not None:
        return markdown
    return markdown.replace(".ipynb)", ".md)")


def on_post_page(output: str, **_: object) -> str:
    """Return a page whose code in text wraps after a sign."""
    parts = _BLOCK.split(output)
    for place in range(0, len(parts), 2):  # every other part is a block
        parts[place] = _CODE.sub(_with_breaks, parts[place])
    return "".join(parts)


def _with_breaks(code: re.Match[str]) -> str:
    def in_text(text: re.Match[str]) -> str:
        breaking = _SIGN.sub(r"\1<wbr>", text[0])
        return _OPTION.sub(r'<span style="white-space: nowrap">\g<0></span>', breaking)

    return re.sub(r">[^<]+<", in_text, code[0])


def page_of(notebook: Mapping[str, Any], name: str) -> str:
    """Return a notebook in Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts.append(f"~~~~ python\n{source}\n~~~~")
            parts += _outputs(cell["outputs"])
    parts.append(f"[This page as a notebook]({name}.ipynb)")
    return "\n\n".join(parts) + "\n"


def _outputs(outputs: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what a cell printed, then its value: a picture, a table or a text."""
    printed = "".join("".join(output.get("text", "")) for output in outputs)
    if printed:
        yield _as_output(printed)
    for output in outputs:
        data = {kind: "".join(value) for kind, value in output.get("data", {}).items()}
        if "image/png" in data:
            source = f"data:image/png;base64,{data['image/png'].strip()}"
            yield f'<img alt="What the cell draws" src="{source}">'
        elif "text/html" in data:
            yield _PANDAS.sub("", data["text/html"])
        elif data:
            yield _as_output(data["text/plain"])


def _as_output(text: str) -> str:
    return f"~~~~ {{ .text .output }}\n{text.rstrip()}\n~~~~"
