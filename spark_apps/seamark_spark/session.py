"""A Spark session in which a definition means the same everywhere: on a laptop, under spark-submit, in a pod."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from pyspark import SparkConf
from pyspark.sql import SparkSession

import seamark
import seamark_spark

MEANING = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    # A record with one unfit field is refused as a whole, never read with a null in its place.
    "spark.sql.json.enablePartialResults": "false",
    # Reading only the fields that are used would leave damage in the others unseen.
    "spark.sql.optimizer.enableJsonExpressionOptimization": "false",
}
"""Settings that decide what a record becomes; they hold whatever the submitter's configuration says."""

PACE = {
    # A tick is two short stages whose sizes the driver chose: planning them again between stages only costs time.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
}

START = {
    # Recording the place in our code of each column that a plan is made of takes longer than making the plan.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""Settings that only hold when the session starts with them."""

LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties')}",
}
"""On one machine the terminal belongs to the run: what Spark has to say reaches us as exceptions."""


def open_session(name: str) -> SparkSession:
    """The session that spark-submit configured; without spark-submit, one on all cores of this machine."""
    conf = SparkConf()
    local = conf.get("spark.master", "local[*]").startswith("local")
    if local:
        _lend_interpreter()
    builder = SparkSession.builder.appName(conf.get("spark.app.name", name))
    if not conf.contains("spark.master"):
        builder = builder.master("local[*]")
    for key, value in {**START, **(LOCAL if local else {})}.items():
        if not conf.contains(key):
            builder = builder.config(key, value)
    return settle(builder.getOrCreate())


def settle(session: SparkSession) -> SparkSession:
    """`session` with the settings that the pipeline relies on."""
    for key, value in {**MEANING, **PACE}.items():
        session.conf.set(key, value)
    # Spark prints every exception that it raises to us; whether one is worth printing is ours to say.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    return session


def _lend_interpreter() -> None:
    """Workers of a local session run this interpreter with these packages, installed or not."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folders = [str(Path(str(package.__file__)).resolve().parents[1]) for package in (seamark, seamark_spark)]
    known = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*known, *folders]))
