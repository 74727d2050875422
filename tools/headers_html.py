#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes a manual in HTML of the public headers: a page for each, their comments as text, declarations with links.

    headers_html.py --output FOLDER HEADER...

What stands in a comment at the beginning of a line is text: an empty line ends a paragraph, lines that are indented stay as they
are. All else is code. A name that begins with clattn or CLATTN leads to where it is declared; index.html lists them all.
"""
import argparse
import html
import os
import re
import textwrap

STYLE = """body { font: 16px/1.5 sans-serif; color: #222; max-width: 60em; margin: 2em auto; padding: 0 1em }
pre { font: 14px/1.45 monospace; background: #f5f6f8; padding: .7em 1em; overflow-x: auto; border-left: 3px solid #0072b2 }
pre.text { background: none; border-left: 3px solid #ddd }
code { font: 14px monospace; background: #f5f6f8 }
.comment { color: #5a6b5d } a { color: #0072b2; text-decoration: none } a:hover { text-decoration: underline }
:target { background: #fff2b3 } nav { columns: 2; font-size: 14px } h1 { font-size: 1.6em }"""

DECLARED = (r"^CLATTN_API [^(;]*?\b(clattn_\w+)\(", r"^(?:struct|enum) (clattn_\w+) \{", r"^typedef [^;]*?\b(clattn_\w+);",
            r"^#define (CLATTN_\w+)", r"^typedef [^;]*?\(\*(clattn_\w+)\)\(", r"^\s+(CLATTN_\w+)(?: = |,| +/\*|\n)")
HIDDEN = r"^(?:/\* SPDX.*\*/|#(?:ifndef|define|endif).*_H\b.*|#endif|#include .*|CLATTN_(?:BEGIN|END)_DECLS)\n"


class Header:
    def __init__(self, path):
        self.name = os.path.splitext(os.path.basename(path))[0]
        with open(path, encoding="utf-8") as file:
            self.text = file.read()
        self.declared = []  # in the order of the file
        for pattern in DECLARED:
            self.declared += re.findall(pattern, self.text, re.MULTILINE)
        self.declared = [name for name in dict.fromkeys(self.declared) if not name.endswith(("_H", "_DECLS"))]


def places_of(headers):
    """The header that declares a name."""
    places = {}
    for header in headers:
        for name in header.declared:
            places.setdefault(name, header.name)
    return places


def linked(text, places, header):
    """Escaped text whose names are links; headers too, as <clattn/host.h> or clattn/host.h."""
    def link(match):
        name = match.group(0)
        if name.startswith("clattn/"):
            return '<a href="%s.html">%s</a>' % (name[7:-2], name)
        if name not in places:
            return name
        return '<a href="%s#%s">%s</a>' % ("" if places[name] == header else places[name] + ".html", name, name)
    return re.sub(r"\bclattn/\w+\.h\b|\b(?:clattn|CLATTN)_\w+", link, html.escape(text, quote=False))


def paragraphs(comment, places, header):
    lines = [re.sub(r"^ \* ?", "", line) for line in re.sub(r"^/\* ?|\s*\*/$", "", comment).split("\n")]
    blocks, kind = [], None
    for line in lines:
        now = None if not line.strip() else "text" if re.match(r"\s{2}", line) else "p"
        if now and now == kind:
            blocks[-1][1].append(line)
        elif now:
            blocks.append((now, [line]))
        kind = now
    made = []
    for tag, kept in blocks:
        if tag == "p":
            text = re.sub(r"`([^`]+)`", r"<code>\1</code>", linked(" ".join(kept), places, header))
            made.append("<p>%s</p>" % text)
        else:
            made.append('<pre class="text">%s</pre>' % linked(textwrap.dedent("\n".join(kept)), places, header))
    return made


def code(text, header, places, marked):
    """A declaration, with a place to jump to at each name that it declares."""
    made = linked(text.strip("\n"), places, header.name)
    for name in header.declared:
        link = '<a href="#%s">%s</a>' % (name, name)
        if name not in marked and re.search(r"\b%s\b" % name, text) and link in made:
            made = made.replace(link, '<span id="%s">%s</span>' % (name, name), 1)
            marked.add(name)
    return "<pre>%s</pre>" % re.sub(r"/\*.*?\*/", lambda match: '<span class="comment">%s</span>' % match.group(0), made,
                                    flags=re.DOTALL)


def page(title, body):
    return ("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>%s</title><style>%s</style></head>\n<body>%s\n</body></html>\n"
            % (title, STYLE, "\n".join(body)))


def header_page(header, places):
    text = re.sub(HIDDEN, "", header.text, flags=re.MULTILINE)
    body = ['<p><a href="index.html">clattn</a></p><h1>&lt;clattn/%s.h&gt;</h1>' % header.name]
    body.append("<nav>%s</nav>" % "<br/>".join('<a href="#%s">%s</a>' % (name, name) for name in header.declared
                                               if name.startswith("clattn")))
    marked, at = set(), 0
    for match in list(re.finditer(r"^/\*.*?\*/\n", text, re.MULTILINE | re.DOTALL)) + [None]:
        between = text[at:match.start() if match else len(text)]
        if between.strip():
            body.append(code(between, header, places, marked))
        if match:
            body += paragraphs(match.group(0).rstrip("\n"), places, header.name)
            at = match.end()
    return page("clattn/%s.h" % header.name, body)


def index_page(headers, places):
    first = next((header for header in headers if header.name == "clattn"), None)
    body = ["<h1>clattn</h1>"]
    if first:
        body += paragraphs(re.findall(r"^/\*.*?\*/", first.text, re.MULTILINE | re.DOTALL)[1], places, "index")
    body.append("<h2>Headers</h2><nav>%s</nav>" % "<br/>".join('<a href="%s.html">clattn/%s.h</a>' % (header.name, header.name)
                                                           for header in headers if header.declared))
    body.append("<h2>Names</h2><nav>%s</nav>" % "<br/>".join('<a href="%s.html#%s">%s</a>' % (places[name], name, name)
                                                         for name in sorted(places)))
    return page("clattn", body)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("headers", nargs="+")
    arguments = parser.parse_args()
    headers = [Header(path) for path in arguments.headers]
    places = places_of(headers)
    os.makedirs(arguments.output, exist_ok=True)
    pages = {header.name: header_page(header, places) for header in headers if header.declared or header.name == "clattn"}
    for name, text in {**pages, "index": index_page(headers, places)}.items():
        with open(os.path.join(arguments.output, name + ".html"), "w", encoding="utf-8") as file:
            file.write(text)
    print(os.path.join(arguments.output, "index.html"))


if __name__ == "__main__":
    main()
