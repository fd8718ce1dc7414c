import type { Clock, TenantId } from '#internal/base/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import type { KeyRing } from '../key-ring.ts'
import { errorFields, type TenantLog } from '../log.ts'
import type { SourceProblem, SourceState, TenantManifest, TenantSource } from '../source.ts'
import { listLiveTenants, listTenantsToPurge } from '../store.ts'
import { type ApplyContext, applyPlan, purgeTenant, removeTenant } from './apply.ts'
import type { Condition } from './conditions.ts'
import type { TenantFacts } from './facts.ts'
import { gatherTenant } from './gather.ts'
import { planTenant } from './plan.ts'
import type { RandomBytes } from './plan-secrets.ts'

/** What a controller is made of. */
export interface TenantControllerOptions {
  readonly source: TenantSource
  readonly pool: Pool
  readonly keyRing: KeyRing
  readonly clock: Clock
  readonly log: TenantLog
  readonly random: RandomBytes
  /** Platform limits on callback networks and ports. */
  readonly callbackBounds: CallbackBounds
  /** Who writes, for the audit log. */
  readonly actor: string
  /** Called after rows changed, so that directories look at once. A failure is logged; polling makes up for it. */
  readonly onChanged: () => Promise<void>
  /**
   * Removes what other stores than Postgres keep of a tenant whose data is to go, a minute or more after it was deleted. Called
   * until it succeeds and the rows are gone as well, so repeating it must be safe.
   */
  readonly onPurge: (tenantId: TenantId) => Promise<void>
  /** Called after a tenant's callback got another URL, which has not asked to be left alone. A failure is one of the pass. */
  readonly onCallbackMoved?: (tenantId: TenantId) => Promise<void>
  /** Longest wait between looks at the source, default 1 s. */
  readonly pollMs?: number
  /** Longest time between passes over all tenants, default 30 s. */
  readonly resyncMs?: number
  /** Where the controller shows that it still passes. */
  readonly health?: Health
}

/** What one pass did. A pass with `failed` or `conflicts` is repeated soon. */
export interface PassReport {
  readonly tenants: number
  readonly applied: number
  readonly removed: number
  readonly conflicts: number
  readonly failed: number
}

/** Keeps Postgres as the source says, level-triggered: each pass compares everything, whatever was missed before. */
export interface TenantController {
  /** Resolves when the first pass has ended, well or not. Goes on until `stop`. */
  start(): Promise<void>
  /** Ends after the pass under way. Safe to repeat. */
  stop(): Promise<void>
  /** One whole pass, for tests and tools; must not overlap with another. */
  runOnce(): Promise<PassReport>
  /** True once a pass put all of the source's tenants in force. */
  inForce(): boolean
  /** The conditions of each tenant after the last pass, by `namespace/name`. */
  conditions(): ReadonlyMap<string, readonly Condition[]>
}

/** Also while one tenant fails again and again, the others' changes take effect within 2 s. */
const retryWaits = { firstMs: 200, maxMs: 1_500 }
/** After so many failures in a row the store is taken to be away and the rest of the pass is left for the next. */
const failuresInRowMax = 3
/** A whole pass, also the first one over 100 000 tenants; each of its steps has the pool's bound or the source's. */
const passMsMax = 600_000
/** Share by which the wait between looks at the source varies. */
const jitter = 0.1
const removalsMax = 100_000
const purgesMax = 100
/** Until then every directory has forgotten a deleted tenant, and what was under way for it is done. */
const purgeAfterMs = 60_000

/** Makes a controller; does nothing before `start` or `runOnce`. Pool and source stay the caller's. */
export function createTenantController(options: TenantControllerOptions): TenantController {
  return new PassingController(options)
}

class PassingController implements TenantController {
  readonly #options: TenantControllerOptions
  readonly #context: ApplyContext
  readonly #conditions = new Map<string, readonly Condition[]>()
  #problems = new Set<string>()
  #revision: number | undefined
  #passedAtMs = 0
  #inForce = false
  #stopped = false
  #loop: SupervisedLoop | undefined
  #unhint: (() => void) | undefined
  readonly #firstPass = Promise.withResolvers<void>()

  constructor(options: TenantControllerOptions) {
    this.#options = options
    const { pool, keyRing, source, actor } = options
    this.#context = { pool, keyRing, secrets: source, actor }
  }

  inForce(): boolean {
    return this.#inForce
  }

  conditions(): ReadonlyMap<string, readonly Condition[]> {
    return this.#conditions
  }

  start(): Promise<void> {
    if (!this.#stopped) this.#loop ??= this.#startLoop()
    return this.#firstPass.promise
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#unhint?.()
    await this.#loop?.stop()
    this.#firstPass.resolve()
  }

  runOnce(): Promise<PassReport> {
    return this.#pass(new AbortController().signal)
  }

  #startLoop(): SupervisedLoop {
    const { source, pollMs = 1_000, random, health } = this.#options
    const loop = superviseLoop({
      name: 'tenant controller',
      // With its jitter it is no longer than was promised.
      intervalMs: pollMs / (1 + jitter),
      jitter,
      turnMsMax: passMsMax,
      backoff: retryWaits,
      random: () => (random(1)[0] ?? 0) / 256,
      runOnce: (signal) => this.#turn(signal),
      onError: (error, failures) => this.#onFailedTurn(error, failures),
      ...(health && { health }),
    })
    this.#unhint = source.onHint(() => loop.wake())
    return loop
  }

  async #turn(signal: AbortSignal): Promise<void> {
    if (!(await this.#isDue())) return
    const { failed, conflicts } = await this.#pass(signal)
    this.#firstPass.resolve()
    if (failed + conflicts > 0) throw new Error(`${failed} steps failed, ${conflicts} met a conflict`)
  }

  #onFailedTurn(error: unknown, failures: number): void {
    this.#options.log.warn({ ...errorFields(error), failures }, 'the pass over all tenants is repeated')
    this.#firstPass.resolve()
  }

  async #pass(signal: AbortSignal): Promise<PassReport> {
    const state = await this.#options.source.read()
    this.#reportProblems(state.problems)
    const report = { tenants: state.tenants.length, applied: 0, removed: 0, conflicts: 0, failed: 0 }
    await this.#removeVanished(state, report)
    await this.#reconcileAll(state.tenants, report, signal)
    if (report.applied + report.removed > 0) await this.#tellChanged()
    await this.#purge(report)
    const settled = report.failed + report.conflicts === 0
    this.#inForce ||= settled
    // Secrets that this pass generated make one more pass, which then finds nothing to do.
    this.#revision = settled ? state.revision : undefined
    this.#passedAtMs = this.#options.clock.now()
    return report
  }

  async #isDue(): Promise<boolean> {
    if (this.#revision === undefined) return true
    if (this.#options.clock.now() - this.#passedAtMs >= (this.#options.resyncMs ?? 30_000)) return true
    return (await this.#options.source.read()).revision !== this.#revision
  }

  async #reconcileAll(
    tenants: readonly TenantManifest[],
    report: MutableReport,
    signal: AbortSignal,
  ): Promise<void> {
    let failuresInRow = 0
    // One order for all passes, so that of two new claimants to a slug always the same one wins.
    const ordered = [...tenants].sort((one, other) => (one.uid < other.uid ? -1 : 1))
    for (const manifest of ordered) {
      if (signal.aborted) {
        report.failed += 1
        return
      }
      const done = await this.#attempt('reconcile', manifest, () => this.#reconcile(manifest, report))
      failuresInRow = done ? 0 : failuresInRow + 1
      if (!done) report.failed += 1
      if (failuresInRow >= failuresInRowMax) return
    }
  }

  async #reconcile(manifest: TenantManifest, report: MutableReport): Promise<void> {
    const { pool, keyRing, source, clock, random, log, callbackBounds } = this.#options
    const sources = { pool, keyRing, secrets: source, random, callbackBounds }
    const facts = await gatherTenant(sources, manifest)
    const now = clock.now()
    const plan = planTenant(facts, now, random)
    const applied = await applyPlan(this.#context, plan, now)
    const fields = { tenant: `${manifest.namespace}/${manifest.name}`, tenantId: plan.tenantId }
    switch (applied.kind) {
      case 'unchanged':
        break
      case 'conditions':
      case 'applied': {
        if (applied.kind === 'applied') report.applied += 1
        if (hasMoved(facts)) await this.#options.onCallbackMoved?.(plan.tenantId)
        const [ready] = plan.conditions
        const result = {
          ready: ready?.status,
          reason: ready?.reason,
          detail: ready?.message,
          warnings: plan.warnings,
        }
        if (ready?.status === 'True' || ready?.reason === 'Suspended') {
          log.info({ ...fields, change: plan.rowChange, ...result }, 'tenant reconciled')
        } else {
          log.warn({ ...fields, change: plan.rowChange, ...result }, 'tenant is not wholly in force')
        }
        break
      }
      case 'conflict':
        report.conflicts += 1
        log.warn(fields, 'tenant changed under our hands, gathering again')
        return
      case 'deposed':
      case 'refused':
        report.failed += 1
        return
    }
    this.#conditions.set(`${manifest.namespace}/${manifest.name}`, plan.conditions)
  }

  async #removeVanished(state: SourceState, report: MutableReport): Promise<void> {
    if (!state.complete) return
    const { source, pool, clock, log } = this.#options
    const present = new Set([...state.tenants.map(({ uid }) => uid), ...state.heldUids])
    const done = await this.#attempt('list', undefined, async () => {
      const live = await listLiveTenants(pool, source.uidPrefix, removalsMax)
      for (const tenant of live.filter(({ uid }) => !present.has(uid))) {
        const applied = await removeTenant(this.#context, tenant, { now: clock.now() })
        if (applied.kind !== 'applied') report.conflicts += 1
        else report.removed += 1
        this.#conditions.delete(`${tenant.namespace}/${tenant.name}`)
        log.info({ tenant: `${tenant.namespace}/${tenant.name}`, tenantId: tenant.id }, 'tenant removed')
      }
    })
    if (!done) report.failed += 1
  }

  async #purge(report: MutableReport): Promise<void> {
    if (report.failed > 0) return
    // What fails here waits for the next pass: it keeps no tenant's change from being in force.
    await this.#attempt('purge', undefined, async () => {
      const { pool, clock, onPurge, log } = this.#options
      for (const id of await listTenantsToPurge(pool, clock.now() - purgeAfterMs, purgesMax)) {
        await onPurge(id)
        const { isDone: done, rowsRemoved } = await purgeTenant(pool, id)
        log.info({ tenantId: id, done, rowsRemoved }, 'data of a deleted tenant removed')
      }
    })
  }

  async #tellChanged(): Promise<void> {
    try {
      await this.#options.onChanged()
    } catch (error) {
      this.#options.log.warn(errorFields(error), 'directories could not be told of a change, they will poll')
    }
  }

  async #attempt(
    part: string,
    manifest: TenantManifest | undefined,
    run: () => Promise<void>,
  ): Promise<boolean> {
    try {
      await run()
      return true
    } catch (error) {
      const tenant = manifest && `${manifest.namespace}/${manifest.name}`
      this.#options.log.error(
        { part, tenant, ...errorFields(error) },
        'tenants could not be reconciled, trying again',
      )
      return false
    }
  }

  /** Each problem once when it appears, and once more when it is gone. */
  #reportProblems(problems: readonly SourceProblem[]): void {
    const present = new Set(problems.map((problem) => JSON.stringify(problem)))
    for (const problem of problems) {
      if (this.#problems.has(JSON.stringify(problem))) continue
      this.#options.log.error({ ...problem }, 'manifest cannot be used, what was good before stays in force')
    }
    const mended = [...this.#problems].filter((text) => !present.has(text)).length
    if (mended > 0) this.#options.log.info({ mended, left: present.size }, 'manifests were mended')
    this.#problems = present
  }
}

type MutableReport = { -readonly [Field in keyof PassReport]: PassReport[Field] }

function hasMoved({ manifest, stored }: TenantFacts): boolean {
  return stored?.spec !== undefined && stored.spec.callback.url !== manifest.spec.callback.url
}
