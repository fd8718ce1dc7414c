import { KubeError, type WantedCondition } from '#internal/kube/index.ts'
import { isMistake, RedisUnavailable } from '#internal/storage/index.ts'
import type { TenantStatus } from '../crd/status.ts'
import { OtherWriter } from './apply-context.ts'
import { statusWith } from './status.ts'
import type { TenantObject } from './tenant-object.ts'

/** Why a deleted Tenant is still there. */
export type DeletionWait =
  /** Its rows are hidden; other processes may serve it until then. */
  | { readonly kind: 'grace'; readonly untilMs: number }
  /** `progress` is missing before the first turn of removing has ended. */
  | {
      readonly kind: 'removing'
      readonly progress?: { readonly rowsRemoved: number; readonly eventsLeft: number }
    }
  | { readonly kind: 'away'; readonly store: 'Postgres' | 'Redis' }
  | { readonly kind: 'failed' }
  /** Only finalizers of other controllers remain. */
  | { readonly kind: 'finalizers'; readonly names: readonly string[] }

/** Most events that are counted for the message: over it they are "more than". */
export const eventsCountMax = 100_000
const namesMax = 5

/** Removing what other stores keep of a tenant failed. */
export class PurgeFailed extends Error {
  override readonly name = 'PurgeFailed'
}

/** Wait that a failed deletion implies; undefined for API errors and lost leadership. What remains are errors of the pool. Pure. */
export function waitOfFailure(error: unknown): DeletionWait | undefined {
  if (error instanceof KubeError || error instanceof OtherWriter) return undefined
  if (error instanceof RedisUnavailable) return { kind: 'away', store: 'Redis' }
  if (error instanceof PurgeFailed)
    return isMistake(error.cause) ? { kind: 'failed' } : { kind: 'away', store: 'Redis' }
  return isMistake(error) ? { kind: 'failed' } : { kind: 'away', store: 'Postgres' }
}

/**
 * The status of a deleted Tenant that waits. Ready is False once its rows are hidden; while Postgres is away before that, it
 * may still be served, and Ready stays as it was. Pure.
 */
export function deletionStatus(object: TenantObject, wait: DeletionWait, nowMs: number): TenantStatus {
  const told = { ...reasonOf(wait), message: messageOf(wait) }
  const isHidden = wait.kind === 'grace' || wait.kind === 'removing' || wait.kind === 'finalizers'
  const changed: WantedCondition[] = [
    ...(isHidden ? [{ type: 'Ready', status: 'False' as const, ...told }] : []),
    { type: 'DeletionWaiting', status: 'True', ...told },
  ]
  return statusWith(object, changed, nowMs)
}

function reasonOf(wait: DeletionWait): { readonly reason: string } {
  switch (wait.kind) {
    case 'grace':
      return { reason: 'GracePeriod' }
    case 'removing':
      return { reason: 'RemovingData' }
    case 'away':
      return { reason: `${wait.store}Unavailable` }
    case 'failed':
      return { reason: 'RemovalFailed' }
    case 'finalizers':
      return { reason: 'OtherFinalizers' }
  }
}

function messageOf(wait: DeletionWait): string {
  switch (wait.kind) {
    case 'grace':
      return `The tenant is no longer served. Its data is removed after ${secondsOf(wait.untilMs)}, when all processes have stopped serving the tenant`
    case 'removing':
      return `Its data is being removed, since spec.deletionPolicy is Delete${progressOf(wait.progress)}`
    case 'away':
      return `${wait.store} does not answer. The deletion is repeated until it does; the operator's log has the error`
    case 'failed':
      return "Removing its rows failed and is repeated; the operator's log has the error"
    case 'finalizers':
      return `The operator is done with it. It waits for the finalizers of others: ${namesOf(wait.names)}`
  }
}

function progressOf(progress: Extract<DeletionWait, { kind: 'removing' }>['progress']): string {
  if (progress === undefined) return ''
  const { rowsRemoved, eventsLeft } = progress
  const events = eventsLeft < eventsCountMax ? `${eventsLeft} events` : `${eventsCountMax} or more events`
  return `: ${rowsRemoved} rows in the last turn, ${eventsLeft === 0 ? 'other rows' : events} are left`
}

function namesOf(names: readonly string[]): string {
  const more = names.length - namesMax
  return names.slice(0, namesMax).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

function secondsOf(ms: number): string {
  return new Date(Math.ceil(ms / 1_000) * 1_000).toISOString().replace('.000Z', 'Z')
}
