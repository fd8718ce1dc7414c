export type {
  ApplyOptions,
  KubeClient,
  ListBounds,
  ObjectList,
  Partially,
  RemoveOptions,
  Selection,
} from './client.ts'
export { createKubeClient } from './client.ts'
export type { Condition, ConditionMoment, WantedCondition } from './conditions.ts'
export { findCondition, mergeConditions, sameConditions } from './conditions.ts'
export type { Credentials, Endpoint, InClusterOptions } from './endpoint.ts'
export { inCluster } from './endpoint.ts'
export type { EventRecorder, EventRecorderOptions, KubeEvent } from './event-recorder.ts'
export { kubeEvents, startEventRecorder } from './event-recorder.ts'
export type { ObjectReference, Occurrence, SeriesBounds } from './event-series.ts'
export type { KubeFailure, KubeFailureKind, KubeResult } from './failure.ts'
export { expectOk, KubeError } from './failure.ts'
export type { KubeconfigOptions } from './kubeconfig.ts'
export { fromKubeconfig } from './kubeconfig.ts'
export type { Election, ElectionEvent, ElectionOptions, Leadership } from './leader.ts'
export { startElection } from './leader.ts'
export type { Lease } from './lease.ts'
export { leases } from './lease.ts'
export type { KubeMetrics } from './metrics.ts'
export { createKubeMetrics } from './metrics.ts'
export type { ObjectCache, ObjectChange } from './object-cache.ts'
export { objectKey, parseObjectKey, withoutManagedFields } from './object-cache.ts'
export type { ProbeResult, ServerFacts } from './probe.ts'
export { probeServer } from './probe.ts'
export type { Reflector, ReflectorOptions, ReflectorTrouble } from './reflector.ts'
export { startReflector } from './reflector.ts'
export type { KubeRequest, KubeStream } from './request.ts'
export type { KubeObject, ObjectMeta, ObjectPlace, OwnerReference, Resource, Secret } from './resource.ts'
export { namespaces, resource, secrets } from './resource.ts'
export type { Timing } from './timing.ts'
export type { Transport, TransportOptions, TransportStats } from './transport.ts'
export { createTransport } from './transport.ts'
export { watchBounds } from './watch-pool.ts'
export type {
  WorkOutcome,
  WorkQueue,
  WorkQueueHooks,
  WorkQueueOptions,
  WorkQueueStats,
} from './work-queue.ts'
export { startWorkQueue } from './work-queue.ts'
