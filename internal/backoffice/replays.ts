import type { Actor } from '#internal/access/index.ts'
import type { ReplayFilter, ReplayId, ReplayJob, ReplayPreview } from '#internal/deliveries/index.ts'
import type { Outcome, Page, PageRequest } from './outcome.ts'
import type { Whose } from './reach.ts'

/** What a replay is started with. */
export interface ReplayStart {
  /** Without a tenant: all of them, for which the right to replay has to be for the whole cluster. */
  readonly filter: ReplayFilter
  /** 1 to 1 000, default 50. */
  readonly ratePerSecond?: number | undefined
  /** Makes repeats the same replay: 1 to 200 characters. */
  readonly idempotencyKey: string
}

/** What came of starting one; `isNew` is false for a repeat. */
export interface ReplayStarted {
  readonly job: ReplayJob
  readonly isNew: boolean
}

/** Replays of many events, each a job that forwarders work on. */
export interface ReplayDesk {
  /** What it would take up: a count, exact to 10 000, and the first 20. */
  preview(actor: Actor, filter: ReplayFilter): Promise<Outcome<ReplayPreview>>
  start(actor: Actor, start: ReplayStart): Promise<Outcome<ReplayStarted>>
  read(actor: Actor, id: ReplayId): Promise<Outcome<ReplayJob>>
  /** Newest first. */
  list(actor: Actor, request: PageRequest & Whose): Promise<Outcome<Page<ReplayJob>>>
  /** Ends it after the step under way. `isNew` is false where it had ended before. */
  cancel(actor: Actor, id: ReplayId): Promise<Outcome<ReplayStarted>>
}
