import { backoffMs, type Clock } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { KeyRing } from '../key-ring.ts'
import { errorFields, type TenantLog } from '../log.ts'
import type { SourceProblem, SourceState, TenantManifest, TenantSource } from '../source.ts'
import { listLiveTenants, listTenantsToPurge } from '../store.ts'
import { type ApplyContext, applyPlan, purgeTenant, removeTenant } from './apply.ts'
import type { Condition } from './conditions.ts'
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
  /** Who writes, for the audit log. */
  readonly actor: string
  /** Called after rows changed, so that directories look at once. A failure is logged; polling makes up for it. */
  readonly onChanged: () => Promise<void>
  /** Longest wait between looks at the source, default 1 s. */
  readonly pollMs?: number
  /** Longest time between passes over all tenants, default 30 s. */
  readonly resyncMs?: number
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
const removalsMax = 100_000
const purgesMax = 100

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
  #failures = 0
  #inForce = false
  #stopped = false
  #hinted = false
  #wake: (() => void) | undefined
  #loop: Promise<void> | undefined
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
    this.#loop ??= this.#run()
    return this.#firstPass.promise
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#wake?.()
    await this.#loop
  }

  async runOnce(): Promise<PassReport> {
    const state = await this.#options.source.read()
    this.#reportProblems(state.problems)
    const report = { tenants: state.tenants.length, applied: 0, removed: 0, conflicts: 0, failed: 0 }
    await this.#removeVanished(state, report)
    await this.#reconcileAll(state.tenants, report)
    await this.#purge(report)
    if (report.applied + report.removed > 0) await this.#tellChanged()
    const settled = report.failed + report.conflicts === 0
    this.#inForce ||= settled
    this.#failures = settled ? 0 : this.#failures + 1
    // Secrets that this pass generated make one more pass, which then finds nothing to do.
    this.#revision = settled ? state.revision : undefined
    this.#passedAtMs = this.#options.clock.now()
    return report
  }

  async #run(): Promise<void> {
    const unhint = this.#options.source.onHint(() => {
      this.#hinted = true
      this.#wake?.()
    })
    while (!this.#stopped) {
      this.#hinted = false
      if (await this.#isDue()) await this.runOnce()
      this.#firstPass.resolve()
      await this.#wait()
    }
    unhint()
  }

  async #isDue(): Promise<boolean> {
    if (this.#revision === undefined) return true
    if (this.#options.clock.now() - this.#passedAtMs >= (this.#options.resyncMs ?? 30_000)) return true
    return (await this.#options.source.read()).revision !== this.#revision
  }

  async #wait(): Promise<void> {
    if (this.#stopped || (this.#hinted && this.#failures === 0)) return
    const waitMs =
      this.#failures === 0
        ? (this.#options.pollMs ?? 1_000)
        : backoffMs(this.#failures - 1, retryWaits, (this.#options.random(1)[0] ?? 0) / 256)
    const woken = Promise.withResolvers<void>()
    this.#wake = woken.resolve
    const timer = setTimeout(woken.resolve, waitMs)
    await woken.promise
    clearTimeout(timer)
    this.#wake = undefined
  }

  async #reconcileAll(tenants: readonly TenantManifest[], report: MutableReport): Promise<void> {
    let failuresInRow = 0
    // One order for all passes, so that of two new claimants to a slug always the same one wins.
    const ordered = [...tenants].sort((one, other) => (one.uid < other.uid ? -1 : 1))
    for (const manifest of ordered) {
      if (this.#stopped) return
      const done = await this.#attempt('reconcile', manifest, () => this.#reconcile(manifest, report))
      failuresInRow = done ? 0 : failuresInRow + 1
      if (!done) report.failed += 1
      if (failuresInRow >= failuresInRowMax) return
    }
  }

  async #reconcile(manifest: TenantManifest, report: MutableReport): Promise<void> {
    const { pool, keyRing, source, clock, random, log } = this.#options
    const facts = await gatherTenant({ pool, keyRing, secrets: source }, manifest)
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
        report.failed += 1
        return
    }
    this.#conditions.set(`${manifest.namespace}/${manifest.name}`, plan.conditions)
  }

  async #removeVanished(state: SourceState, report: MutableReport): Promise<void> {
    if (!state.complete) return
    const { source, pool, clock, log } = this.#options
    const present = new Set([...state.tenants.map(({ uid }) => uid), ...state.heldUids])
    await this.#attemptPart('list', report, async () => {
      const live = await listLiveTenants(pool, source.uidPrefix, removalsMax)
      for (const tenant of live.filter(({ uid }) => !present.has(uid))) {
        const applied = await removeTenant(this.#context, tenant, clock.now())
        if (applied.kind !== 'applied') report.conflicts += 1
        else report.removed += 1
        this.#conditions.delete(`${tenant.namespace}/${tenant.name}`)
        log.info({ tenant: `${tenant.namespace}/${tenant.name}`, tenantId: tenant.id }, 'tenant removed')
      }
    })
  }

  async #purge(report: MutableReport): Promise<void> {
    if (report.failed > 0) return
    await this.#attemptPart('purge', report, async () => {
      for (const id of await listTenantsToPurge(this.#options.pool, purgesMax)) {
        const done = await purgeTenant(this.#options.pool, id)
        this.#options.log.info({ tenantId: id, done }, 'data of a deleted tenant removed from Postgres')
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

  async #attemptPart(part: string, report: MutableReport, run: () => Promise<void>): Promise<void> {
    if (!(await this.#attempt(part, undefined, run))) report.failed += 1
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
