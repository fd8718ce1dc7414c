import { systemClock } from '#internal/base/index.ts'
import { storeBatch } from '#internal/events/index.ts'
import { Callers, LargeBodies } from '#internal/intake/index.ts'
import { CallSigner } from '#internal/simulations/simulated-call.ts'
import {
  chargebackOf,
  type SimulateChargebackRequest,
  type Simulation,
} from '#internal/simulations/simulation.ts'
import { Simulator, type SimulatorOptions, type StepReport } from '#internal/simulations/simulator.ts'
import { startSimulation } from '#internal/simulations/start.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { Directory, type DirectoryTenant } from '#internal/tenants/index.ts'
import type { EventVerdict } from '#internal/usage/index.ts'
import { openerOf, openTenants } from '../api.ts'
import { createMigratedDatabase } from '../migrated-database.ts'
import { testStores } from '../stores.ts'
import { until } from '../until.ts'

/** Simulations with real tenants, adapters and Postgres, whose iterations and time a test controls. */
export interface SimulationLab {
  readonly pool: Pool
  readonly directory: Directory
  /** Completed and failed steps. */
  readonly reports: StepReport[]
  /** Answers of the intake that tests can change. */
  readonly intake: { paused: boolean; isStoreAway: boolean; verdict: EventVerdict }
  /** Creates a simulator as a process does. */
  simulator(options?: Partial<SimulatorOptions>): Simulator
  tenant(name: string): DirectoryTenant
  /** Starts a simulation, by default of 42 EUR. */
  start(tenant: string, request?: Partial<SimulateChargebackRequest>): Promise<Simulation>
  /** Moves the due times of all simulations back by `ms`. */
  pass(ms: number): Promise<void>
  /** Replaces the tenants. */
  apply(yaml: string): Promise<void>
  close(): Promise<void>
}

/** Opens a lab with these tenants. The caller closes it. */
export async function openSimulationLab(yaml: string): Promise<SimulationLab> {
  const database = await createMigratedDatabase()
  const pool = createPool({
    url: database.url,
    applicationName: 'test simulations',
    connectionsMax: 8,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 5_000,
  })
  const tenants = await openTenants(database.url, (await testStores()).redisUrl)
  await tenants.apply(yaml)
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const directory = new Directory({ pool, clock: systemClock, log })
  await directory.start()
  const largeBodies = new LargeBodies()
  let isPaused = false
  let notifySettings = () => undefined as void
  const intake: SimulationLab['intake'] = {
    get paused() {
      return isPaused
    },
    set paused(paused) {
      isPaused = paused
      notifySettings()
    },
    isStoreAway: false,
    verdict: { kind: 'free' },
  }
  const settingsOf = () => ({
    isProviderPaused: () => isPaused,
    retention: { payloadDays: 30, eventDays: 90 },
  })
  const storing = { pool, wake: () => undefined, onError: () => undefined }
  const reports: StepReport[] = []
  const accepting: SimulatorOptions['intake'] = {
    callers: new Callers({
      directory,
      secrets: openerOf(directory),
      settings: {
        current: settingsOf(),
        onChange(listener) {
          notifySettings = () => listener(settingsOf())
        },
      },
    }),
    queue: {
      async accept(event) {
        if (intake.isStoreAway) return 'unavailable'
        const outcome = await storeBatch(storing, [event])
        return (outcome.kind === 'completed' && outcome.acceptances[0]) || 'unavailable'
      },
    },
    largeBodies,
    vendorKeys: {
      find: async () => ({ kind: 'unavailable' }),
      findSigner: async () => ({ kind: 'unavailable' }),
      confirm: async () => false,
    },
    clock: systemClock,
    signatureAgeMsMax: 300_000,
    checkLimits: () => intake.verdict,
  }
  const tenant = (name: string) => {
    const found = directory.findTenantBySlug(name)
    if (!found) throw new Error(`there is no tenant ${name}`)
    return found
  }
  return {
    pool,
    directory,
    reports,
    intake,
    tenant,
    simulator: (options = {}) =>
      new Simulator({
        pool,
        directory,
        intake: accepting,
        signer: new CallSigner(),
        clock: systemClock,
        onStep: (report) => void reports.push(report),
        ...options,
      }),
    async start(name, request = {}) {
      const chargeback = chargebackOf({ amount: 4200, currency: 'EUR', ...request })
      const tenantId = tenant(name).id
      const started = await startSimulation(pool, { tenantId, chargeback, by: 'test', days: 90 }, Date.now())
      if (started.kind !== 'started') throw new Error(started.kind)
      return started.simulation
    },
    async pass(ms) {
      await pool.query(
        `UPDATE simulations SET next_at = next_at - $1 * interval '1 ms',
           due_at = ARRAY(SELECT at - $1 * interval '1 ms' FROM unnest(due_at) WITH ORDINALITY u(at, nth) ORDER BY nth)`,
        [ms],
      )
    },
    async apply(text) {
      const before = directory.findTenantBySlug('acme')
      await tenants.apply(text)
      directory.notify()
      await until('the directory’s change', () => directory.findTenantBySlug('acme') !== before)
    },
    async close() {
      await directory.stop()
      largeBodies.close()
      await tenants.close()
      await pool.end()
      await database.drop()
    },
  }
}
