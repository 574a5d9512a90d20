#!/bin/sh
# What Spark on Kubernetes calls its images with: `driver ARGS...` or `executor`. The PyPI distribution of Spark
# brings no entrypoint of its own. Anything else is run as it is.
set -eu

case "${1:-}" in
driver)
    shift
    exec tini -s -- "$SPARK_HOME/bin/spark-submit" \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client "$@"
    ;;
executor)
    # Java options come as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ... and may hold spaces: each stays one argument.
    set --
    n=0
    while option=$(printenv "SPARK_JAVA_OPT_$n"); do
        set -- "$@" "$option"
        n=$((n + 1))
    done
    exec tini -s -- "$JAVA_HOME/bin/java" "$@" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" \
        --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec tini -s -- "$@"
    ;;
esac
