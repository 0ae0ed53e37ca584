"""The version of this package, which is that of the server it was made with."""

VERSION = "0.1.0"
