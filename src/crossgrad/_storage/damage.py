"""The error for a file whose content is not what was written, in one form."""


class DamagedFileError(ValueError):
    """The file's content is not what was written: its checksum, its layout or a value in it is wrong."""


def damaged(what: object, why: object) -> DamagedFileError:
    """The error to raise.

    >>> print(damaged("summary.json", "it must be an object; found a list."))
    summary.json is damaged: it must be an object; found a list. Put back a copy, or move it away.

    Args:
        what: the file, and the line if it has many.
        why: what it must be, and what was found.
    """
    return DamagedFileError(f"{what} is damaged: {str(why).removesuffix('.')}. Put back a copy, or move it away.")
