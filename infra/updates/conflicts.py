"""All conflicts of an update."""

from __future__ import annotations

from evenflow.infra.updates import data_rules, order_rules
from evenflow.infra.updates.stacks import Stacks
from evenflow.infra.updates.update import Update, UpdateConflict

_RULES = (
    data_rules.lost_data,
    data_rules.new_key,
    data_rules.new_secret_values,
    data_rules.names_twice,
    data_rules.lower_throughput,
    order_rules.exports_in_use,
    order_rules.origins_in_use,
    order_rules.origins_reachable,
    order_rules.subnets_moved,
    order_rules.first_edge_key,
    order_rules.orphaned_stacks,
    data_rules.retained_names,
)


def conflicts(old: Stacks, new: Stacks) -> list[UpdateConflict]:
    """The conflicts of an update, and the steps before or after it.

    Args:
        old: the deployed stacks. Empty: this is the first deployment.
        new: the synthesized ones.
    """
    update = Update.between(old, new)
    return [conflict for rule in _RULES for conflict in rule(update)]
