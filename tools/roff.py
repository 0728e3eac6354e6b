# SPDX-License-Identifier: Apache-2.0
"""Text for manual pages, for the tools that make them."""


def roff(text):
    """Text as roff shows it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha")
    return "\\&" + text if text.startswith(".") else text
