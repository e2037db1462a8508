"""Documents as users have them: PDF, DOCX, HTML, Markdown and text, read by libraries that are made
for it, and cut into passages by headings and length."""

from retrieval.documents.cutting import Cut
from retrieval.documents.document import Block, Document, Unreadable
from retrieval.documents.folder import DocumentCorpus, Skipped
from retrieval.documents.reading import SUFFIXES, read_document

__all__ = [
    "SUFFIXES",
    "Block",
    "Cut",
    "Document",
    "DocumentCorpus",
    "Skipped",
    "Unreadable",
    "read_document",
]
