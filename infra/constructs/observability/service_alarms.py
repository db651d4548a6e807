"""Alarms on parts of AWS that fail, are missing or refuse, and on requests that are blocked."""

from __future__ import annotations

from functools import partial

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from constructs import Construct

from evenflow.infra.constructs.data.data import dead_letter_queue_name
from evenflow.infra.constructs.metrics import MINUTE, evenflow_metric
from evenflow.infra.constructs.observability.runbook_alarm import AlarmTopics, RunbookAlarm
from evenflow.infra.constructs.service.workers import running_workers
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.stack_settings import FirewallSettings
from evenflow.stream_core.metrics.metric_catalogue import QUEUE_DEPTH, STORE_RETRIES, Urgency


def blocked_requests(settings: EnvironmentSettings, rule: str = "ALL") -> cloudwatch.Metric:
    """What the web ACL blocked in a minute, by all rules or by one.

    Metrics of CloudFront's web ACLs are in us-east-1, and have no dimension for the region.
    """
    return cloudwatch.Metric(
        namespace="AWS/WAFV2",
        metric_name="BlockedRequests",
        dimensions_map={"WebACL": settings.global_prefix, "Rule": rule},
        statistic=cloudwatch.Stats.SUM,
        period=MINUTE,
    )


def blocked_requests_alarm(
    scope: Construct,
    *,
    settings: EnvironmentSettings,
    topics: AlarmTopics,
    firewall: FirewallSettings,
) -> RunbookAlarm:
    """The alarm, which must be in us-east-1. It can wait: to block is what a web ACL is for."""
    limit = firewall.blocked_per_minute
    return RunbookAlarm(
        scope,
        "firewall.blocked_requests",
        settings=settings,
        topics=topics,
        metric=blocked_requests(settings),
        meaning=(
            "Requests that the web ACL blocked: somebody attacks, or a rule takes readers for "
            f"attackers. Alarm: > {limit} a minute"
        ),
        threshold=limit,
        silence="nothing was blocked",
        urgency=Urgency.WORKING_HOURS,
    )


_RETRIES_PER_MINUTE = 100
_SHARE_OF_LIMIT = 0.8


class ServiceAlarms(Construct):
    """Alarms on queue, dead letters, load balancer, tasks, workers, functions and HTTP API."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: EnvironmentSettings,
        topics: AlarmTopics,
        load_balancer: elbv2.IApplicationLoadBalancer,
        target_group: elbv2.IApplicationTargetGroup,
        http_api_id: str | None,
        cluster_name: str,
        shared_load_balancer: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings, self._cluster_name = settings, cluster_name
        self._alarm = partial(RunbookAlarm, self, settings=settings, topics=topics)
        self.alarms = [
            self._full_queue(),
            self._store_retries(),
            self._dead_letters(),
            self._handler_errors(target_group),
            *([] if shared_load_balancer else [self._load_balancer_errors(load_balancer)]),
            self._missing_tasks(target_group),
            *([] if http_api_id is None else self._of_clients(http_api_id)),
            *self._upkeep(),
            *self._missing_workers(),
        ]

    def _full_queue(self) -> RunbookAlarm:
        limit = self._settings.limits.queue_depth
        return self._alarm(
            "queue.depth",
            metric=evenflow_metric(QUEUE_DEPTH, self._settings, "Maximum"),
            meaning=(
                f"Messages whose generation has not begun, at the fullest task. At {limit} it "
                "refuses further ones"
            ),
            threshold=_SHARE_OF_LIMIT * limit,
            silence="no task is running, or none can publish: ws.active_connections says so",
            urgency=Urgency.PAGE,
        )

    def _store_retries(self) -> RunbookAlarm:
        return self._alarm(
            "store.retries",
            metric=evenflow_metric(STORE_RETRIES, self._settings, "Sum"),
            meaning=(
                "Writes to DynamoDB repeated because it throttled or failed. None is lost, and "
                "readers feel it only when store.write_delay_ms says so. Alarm: > "
                f"{_RETRIES_PER_MINUTE} a minute"
            ),
            threshold=_RETRIES_PER_MINUTE,
            datapoints=5,
            silence="no task is running, or none can publish: ws.active_connections says so",
            urgency=Urgency.WORKING_HOURS,
        )

    def _dead_letters(self) -> RunbookAlarm:
        return self._alarm(
            "dead_letters.waiting",
            metric=cloudwatch.Metric(
                namespace="AWS/SQS",
                metric_name="ApproximateNumberOfMessagesVisible",
                dimensions_map={"QueueName": dead_letter_queue_name(self._settings)},
                statistic="Maximum",
                period=MINUTE,
            ),
            meaning=(
                "Messages that no task could answer, and that wait for somebody to look at them. "
                "Alarm: any"
            ),
            threshold=0,
            datapoints=1,
            periods=1,
            silence="the queue has been empty and untouched for hours; SQS then says nothing",
            urgency=Urgency.WORKING_HOURS,
        )

    # Two alarms on 5xx, since a sum has no value in a minute without one of its terms.
    def _handler_errors(self, target_group: elbv2.IApplicationTargetGroup) -> RunbookAlarm:
        return self._server_errors(
            "load_balancer.handler_errors",
            target_group.metrics.http_code_target(
                elbv2.HttpCodeTarget.TARGET_5XX_COUNT, period=MINUTE
            ),
            "Answers 5xx by handlers, refused handshakes included",
        )

    def _load_balancer_errors(self, load_balancer: elbv2.IApplicationLoadBalancer) -> RunbookAlarm:
        return self._server_errors(
            "load_balancer.own_errors",
            load_balancer.metrics.http_code_elb(elbv2.HttpCodeElb.ELB_5XX_COUNT, period=MINUTE),
            "Answers 5xx by the load balancer itself: no healthy task, or one that hung up",
        )

    def _server_errors(self, name: str, metric: cloudwatch.Metric, meaning: str) -> RunbookAlarm:
        limit = self._settings.handler.server_errors_per_minute
        return self._alarm(
            name,
            metric=metric,
            meaning=f"{meaning}. Alarm: > {limit} a minute",
            threshold=limit,
            silence="no such answer",
            urgency=Urgency.FELT,
            runbook="load_balancer.errors",
        )

    def _missing_tasks(self, target_group: elbv2.IApplicationTargetGroup) -> RunbookAlarm:
        tasks = self._settings.handler.tasks_min
        return self._alarm(
            "service.healthy_tasks",
            metric=target_group.metrics.healthy_host_count(statistic="Minimum", period=MINUTE),
            meaning=(
                f"Tasks that the load balancer finds healthy. Alarm: < {tasks}, the fewest there "
                "should ever be"
            ),
            threshold=tasks,
            below=True,
            silence="no task is registered",
            silence_is_bad=True,
            urgency=Urgency.PAGE,
        )

    def _missing_workers(self) -> list[RunbookAlarm]:
        workers = self._settings.workers
        if workers is None:
            return []
        return [
            self._alarm(
                "workers.running_tasks",
                metric=running_workers(self._settings, self._cluster_name),
                meaning=(
                    f"Workers that run. Alarm: < {workers.tasks_min}, the fewest there should ever "
                    "be"
                ),
                threshold=workers.tasks_min,
                below=True,
                silence="no worker is running, and no answer can be generated",
                silence_is_bad=True,
                urgency=Urgency.PAGE,
            )
        ]

    def _api_errors(self, http_api_id: str) -> RunbookAlarm:
        limit = self._settings.handler.server_errors_per_minute
        return self._alarm(
            "http_api.errors",
            metric=cloudwatch.Metric(
                namespace="AWS/ApiGateway",
                metric_name="5xx",
                dimensions_map={"ApiId": http_api_id},
                statistic="Sum",
                period=MINUTE,
            ),
            meaning=(
                "Sessions or polls answered 5xx: a function failed, timed out or was throttled. "
                f"Alarm: > {limit} a minute"
            ),
            threshold=limit,
            silence="no request",
            urgency=Urgency.FELT,
        )

    def _of_clients(self, http_api_id: str) -> list[RunbookAlarm]:
        """The alarms on the functions that clients call."""
        timeout = 1_000 * self._settings.functions.session_init_timeout_seconds
        throttled = (
            self._alarm(
                f"{function}.throttles",
                metric=self._of_function(function, "Throttles"),
                meaning=(
                    f"Calls of {function} refused because its concurrency is used up, or the "
                    "account's. Alarm: any"
                ),
                threshold=0,
                silence="no call",
                urgency=Urgency.PAGE,
                runbook="functions.throttles",
            )
            for function in ("session_init", "poll_response")
        )
        return [
            self._api_errors(http_api_id),
            *throttled,
            # Polls wait on purpose. fallback.poll_latency_ms says how late they are.
            self._alarm(
                "session_init.duration_ms",
                # Not a percentile: a p99 of fewer than a hundred calls a minute is the longest one
                # anyway.
                metric=self._of_function("session_init", "Duration", "Maximum"),
                meaning=(
                    f"Run time of session_init, which is stopped at {timeout} ms. Alarm: the "
                    f"longest > {_SHARE_OF_LIMIT:.0%} of that"
                ),
                threshold=_SHARE_OF_LIMIT * timeout,
                silence="no call",
                urgency=Urgency.WORKING_HOURS,
            ),
        ]

    def _upkeep(self) -> list[RunbookAlarm]:
        """The alarms on the functions that no client calls."""
        return [
            self._alarm(
                "rotate_signing_keys.errors",
                metric=self._of_function("rotate_signing_keys", "Errors"),
                meaning=(
                    "Failed steps of the rotation of the signing keys. The keys in force stay in "
                    "force. Alarm: any"
                ),
                threshold=0,
                datapoints=1,
                periods=1,
                silence="no rotation is going on",
                urgency=Urgency.WORKING_HOURS,
            ),
            self._alarm(
                "usage_file.errors",
                metric=self._of_function("usage_file", "Errors"),
                meaning=(
                    "Calls of usage_file by which a day's file was not written. The records stay "
                    "in the table, and the next call tries again. Alarm: any"
                ),
                threshold=0,
                datapoints=1,
                periods=1,
                silence="no call: there is one a day",
                urgency=Urgency.WORKING_HOURS,
            ),
        ]

    def _of_function(
        self, function: str, metric_name: str, statistic: str = "Sum"
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name=metric_name,
            dimensions_map={
                "FunctionName": f"{self._settings.prefix}-{function.replace('_', '-')}"
            },
            statistic=statistic,
            period=MINUTE,
        )
