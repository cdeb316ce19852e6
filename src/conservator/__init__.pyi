from conservator.channels import Channel as Channel
from conservator.channels import MaskChannel as MaskChannel
from conservator.channels import ReplacementChannel as ReplacementChannel
from conservator.document import Document as Document
from conservator.document import open_document as open_document
from conservator.documents import compare_documents as compare_documents
from conservator.documents import damage as damage
from conservator.errors import ConservatorError as ConservatorError
from conservator.experts import Expert as Expert
from conservator.experts import ExpertSpec as ExpertSpec
from conservator.experts import load_experts as load_experts
from conservator.field import Bayes as Bayes
from conservator.options import RestoreOptions as RestoreOptions
from conservator.restorer import Restorer as Restorer
from conservator.restorer import restore as restore
from conservator.results import Restoration as Restoration

__version__: str
