"""The search attributes with which the workflow of a pod, or of the node, is started."""

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from proto.temporal.names import PodWorkflowId


def initial_attributes(workflow_id: PodWorkflowId) -> TypedSearchAttributes:
    """Return the pod's search attributes and their initial values; the workflow upserts only what differs."""
    keyword, number = SearchAttributeKey.for_keyword, SearchAttributeKey.for_int
    return TypedSearchAttributes(
        [
            SearchAttributePair(keyword("PodNamespace"), workflow_id.namespace),
            SearchAttributePair(keyword("PodName"), workflow_id.name),
            SearchAttributePair(keyword("PodUID"), workflow_id.uid),
            SearchAttributePair(keyword("PodNode"), workflow_id.node),
            SearchAttributePair(keyword("PodPhase"), "Pending"),
            SearchAttributePair(keyword("PodReady"), "False"),
            SearchAttributePair(number("PodRestarts"), 0),
        ]
    )


def node_attributes(node: str) -> TypedSearchAttributes:
    """Return the search attributes of the node's own workflow."""
    return TypedSearchAttributes([SearchAttributePair(SearchAttributeKey.for_keyword("PodNode"), node)])
