import type { Clock } from '#internal/base/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import { type Pool, type PoolClient, withTx } from '#internal/storage/index.ts'
import type { Health, Logger } from '#internal/telemetry/index.ts'
import type { ResourceName } from '../reconcile/gather-tenant.ts'
import { passFence, type WriterFence } from '../reconcile/tenant-writes.ts'
import { type ProviderFacts, type ProviderPlan, planProviders } from './plan-providers.ts'
import type {
  DeclarationRules,
  ProviderObject,
  ProviderSource,
  ValidatedProvider,
} from './provider-object.ts'
import {
  listResourceNames,
  listStoredProviders,
  noteGeneration,
  putProvider,
  removeProvider,
  type StoredProvider,
} from './provider-store.ts'

export interface ProviderControllerOptions {
  readonly source: ProviderSource
  readonly pool: Pool
  readonly rules: DeclarationRules
  readonly clock: Clock
  readonly log: Pick<Logger, 'info' | 'warn' | 'error'>
  readonly fence?: WriterFence
  readonly health?: Health
  /** False after the leader was deposed. Checked before each write to the source. */
  isHeld(): boolean
  /** Called when the manifest of a Provider has taken effect, after a change or after a problem was fixed. Must not throw. */
  readonly onInForce?: ((name: string, vectorsPassed: number) => void) | undefined
  /** Called after a change. `users`: tenants that name the changed declarations. */
  onChanged(users: readonly ResourceName[]): Promise<void>
}

/** Interval of the passes. Also the maximum delay of a deletion after the last tenant stopped using the Provider. */
const intervalMs = 5_000
/** Timeout of one pass over at most 500 Providers with 20 test vectors each, which are validated once per change. */
const turnMsMax = 300_000
const usersMax = 100_000

/** Level-triggered: each pass compares the complete state, and writes nothing if nothing has changed. */
export class ProviderController {
  readonly #options: ProviderControllerOptions
  /** Results of the validation by spec, cached because test vectors take time to run. */
  readonly #validated = new WeakMap<object, ValidatedProvider>()
  readonly #problems = new Map<string, string>()
  #loop: SupervisedLoop | undefined
  #unfollow: (() => void) | undefined

  constructor(options: ProviderControllerOptions) {
    this.#options = options
  }

  start(): void {
    const { source, health, log } = this.#options
    const loop = superviseLoop({
      name: 'providers',
      intervalMs,
      turnMsMax,
      runOnce: () => this.runOnce(),
      onError: (error, failures) =>
        log.warn({ failures, cause: error }, 'Providers could not be reconciled; retrying'),
      ...(health && { health }),
    })
    this.#loop = loop
    this.#unfollow = source.follow(() => loop.wake())
  }

  /** Waits for the current pass. Idempotent. */
  async stop(): Promise<void> {
    this.#unfollow?.()
    await this.#loop?.stop()
  }

  /** @throws when Postgres or the source is unavailable */
  async runOnce(): Promise<void> {
    const { source, clock, isHeld } = this.#options
    const objects = source.all()
    if (objects === undefined || !isHeld()) return
    const facts = await this.#gather(objects)
    const plans = planProviders(facts, clock.now())
    const changed: string[] = []
    for (const plan of plans) {
      if (!isHeld()) return
      if (await this.#apply(plan)) changed.push(...namesOf(plan, facts.stored))
      this.#report(plan)
    }
    for (const name of this.#problems.keys())
      if (!plans.some((plan) => plan.name === name)) this.#problems.delete(name)
    if (changed.length === 0) return
    await this.#options.onChanged(await listResourceNames(this.#options.pool, changed, usersMax))
  }

  async #gather(objects: readonly ProviderObject[]): Promise<ProviderFacts> {
    const { pool, source } = this.#options
    const stored = await listStoredProviders(pool)
    const providers = []
    for (const object of objects) {
      const known = this.#known(object)
      // Yields to other work between two Providers, because the test vectors of each take milliseconds to run.
      if (known === undefined) await Bun.sleep(0)
      providers.push({ object, validated: known ?? this.#validate(object) })
    }
    const present = new Set(objects.map(({ metadata }) => metadata.name))
    const vanished = source.isComplete()
      ? stored.filter((each) => !present.has(each.name) && source.owns(each))
      : []
    const users = new Map<string, readonly ResourceName[]>()
    const going = [
      ...objects
        .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
        .map(({ metadata }) => metadata.name),
      ...vanished.map(({ name }) => name),
    ]
    for (const name of going) {
      const aliases = stored.find((each) => each.name === name)?.aliases ?? []
      users.set(name, await listResourceNames(pool, [name, ...aliases], usersMax))
    }
    return { providers, stored, vanished, users }
  }

  #known({ spec }: ProviderObject): ValidatedProvider | undefined {
    return typeof spec === 'object' && spec !== null ? this.#validated.get(spec) : undefined
  }

  #validate({ metadata, spec }: ProviderObject): ValidatedProvider {
    const validated = this.#options.rules.validate(metadata.name, spec)
    if (typeof spec === 'object' && spec !== null) this.#validated.set(spec, validated)
    return validated
  }

  /** Returns whether the active declaration changed. */
  async #apply({ object, step, holds, releases, status }: ProviderPlan): Promise<boolean> {
    const { source } = this.#options
    // The finalizer is added before the declaration is in force, so that no deletion is missed.
    if (object && holds && !(await source.hold(object))) return false
    if (step.kind !== 'none') await this.#write((client) => writeStep(client, step))
    if (object && status) await source.applyStatus(object, status)
    if (object && releases) await source.release(object)
    return step.kind === 'put' || step.kind === 'remove'
  }

  async #write(write: (client: PoolClient) => Promise<void>): Promise<void> {
    const { pool, fence } = this.#options
    await withTx(pool, async (client) => {
      if (fence !== undefined && !(await passFence(client, fence)))
        throw new Error('fence check failed: a later leader has written')
      await write(client)
    })
  }

  #report({ name, object, step, problem, vectorsPassed }: ProviderPlan): void {
    const { log, onInForce } = this.#options
    if (vectorsPassed !== undefined && (step.kind === 'put' || this.#problems.has(name))) {
      const generation = object?.metadata.generation
      log.info(
        { provider: name, generation, vectors: vectorsPassed },
        'provider now in force as declared in its manifest',
      )
      onInForce?.(name, vectorsPassed)
    }
    if (step.kind === 'remove') log.info({ provider: name }, 'provider removed')
    if (problem === this.#problems.get(name)) return
    if (problem === undefined) this.#problems.delete(name)
    else {
      this.#problems.set(name, problem)
      log.warn({ provider: name, problem }, 'provider is not in force as its manifest says')
    }
  }
}

function writeStep(client: PoolClient, step: Exclude<ProviderPlan['step'], { kind: 'none' }>): Promise<void> {
  switch (step.kind) {
    case 'put':
      return putProvider(client, step.provider)
    case 'note':
      return noteGeneration(client, step.provider)
    case 'remove':
      return removeProvider(client, step.name)
  }
}

function namesOf({ name, step }: ProviderPlan, stored: readonly StoredProvider[]): string[] {
  const before = stored.find((each) => each.name === name)
  const after = step.kind === 'put' ? step.provider : undefined
  return [...new Set([name, ...(before?.aliases ?? []), ...(after?.aliases ?? [])])]
}
