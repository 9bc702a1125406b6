"""Where a picture's file ends: what follows, such as a phone's film or megabytes of zeros, is no part of the picture.

Found from that file alone, whatever the others are. For TIFF, BMP and PPM, and for what is damaged, that is the whole file.
"""

from __future__ import annotations

_PNG, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND"
_NO_LENGTH = (0x01, *range(0xD0, 0xD9))  # markers of JPEG that stand alone
_JPEG_END = 0xD9


def trimmed(content: bytes) -> bytes:
    """The file up to the end of its picture."""
    try:
        return content[: _end(content)]
    except (IndexError, ValueError):
        return content


def _end(content: bytes) -> int:
    """The first byte that is no part of the picture. Raises IndexError or ValueError for a damaged one."""
    if content.startswith(_PNG):
        return _png_end(content)
    if content.startswith(b"\xff\xd8"):
        return _jpeg_end(content)
    if content.startswith((b"GIF87a", b"GIF89a")):
        return _gif_end(content)
    if content.startswith(b"RIFF") and content[8:12] == b"WEBP":
        return 8 + int.from_bytes(content[4:8], "little")
    return len(content)


def _png_end(content: bytes) -> int:
    at, kind = len(_PNG), b""
    while kind != _PNG_END:
        kind = content[at + 4 : at + 8]
        if len(kind) < 4:
            raise IndexError
        at += 12 + int.from_bytes(content[at : at + 4])  # length, kind and sum beside the data
    return at


def _jpeg_end(content: bytes) -> int:
    """In a scan 0xFF stands before 0x00 or a marker that stands alone; elsewhere segments say how long they are."""
    at = 2
    while True:
        at = content.index(b"\xff", at)
        while (marker := content[at]) == 0xFF:  # any number of them may fill up
            at += 1
        at += 1
        if marker == _JPEG_END:
            return at
        if marker != 0 and marker not in _NO_LENGTH:
            at += int.from_bytes(content[at : at + 2])


def _gif_end(content: bytes) -> int:
    at = 13 + _colours(content[10])
    while (kind := content[at]) != 0x3B:
        if kind == 0x2C:  # a picture: its place, size and colours, and the size of its codes
            at += 11 + _colours(content[at + 9])
        elif kind == 0x21:  # an extension
            at += 2
        else:
            raise ValueError
        while size := content[at]:
            at += 1 + size
        at += 1
    return at + 1


def _colours(flags: int) -> int:
    """Bytes of a table of colours."""
    return 3 * 2 ** (1 + (flags & 7)) if flags & 0x80 else 0
