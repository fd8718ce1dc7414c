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
export type { Credentials, Endpoint, InClusterOptions, KubeconfigOptions } from './endpoint.ts'
export { fromKubeconfig, inCluster } from './endpoint.ts'
export type {
  EventRecorder,
  EventRecorderOptions,
  KubeEvent,
  ObjectReference,
  Occurrence,
  SeriesBounds,
} from './events.ts'
export { kubeEvents, startEventRecorder } from './events.ts'
export type { KubeFailure, KubeFailureKind, KubeResult } from './failure.ts'
export { expectOk, KubeError } from './failure.ts'
export type { Election, ElectionEvent, ElectionOptions, Leadership } from './leader.ts'
export { startElection } from './leader.ts'
export type { Lease } from './lease.ts'
export { leases } from './lease.ts'
export type { KubeMetrics } from './metrics.ts'
export { createKubeMetrics } from './metrics.ts'
export type { ProbeResult, ServerFacts } from './probe.ts'
export { probeServer } from './probe.ts'
export type {
  ObjectCache,
  ObjectChange,
  Reflector,
  ReflectorOptions,
  ReflectorTrouble,
} from './reflector.ts'
export { startReflector, withoutManagedFields } from './reflector.ts'
export type { KubeRequest, KubeStream } from './request.ts'
export type { KubeObject, ObjectMeta, ObjectPlace, OwnerReference, Resource, Secret } from './resource.ts'
export { namespaces, objectKey, parseObjectKey, resource, secrets } from './resource.ts'
export type { Transport, TransportOptions, TransportStats } from './transport.ts'
export { createTransport } from './transport.ts'
export type { Timing } from './waits.ts'
export { watchBounds } from './watch-pool.ts'
export type {
  WorkOutcome,
  WorkQueue,
  WorkQueueHooks,
  WorkQueueOptions,
  WorkQueueStats,
} from './work-queue.ts'
export { startWorkQueue } from './work-queue.ts'
