"""Hands the generated pages to the documentation's build (mkdocs-gen-files runs this file)."""

import mkdocs_gen_files

from scripts.docs_pages import pages

for path, text in pages().items():
    with mkdocs_gen_files.open(path, "w") as page:
        page.write(text)
