import { openLoop } from '#cmd/serving/loop.ts'
import { openPostgres } from '#cmd/serving/stores.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import type { Config } from '#internal/config/index.ts'
import { DemoTraffic, readMadeUpUntil, writeDemoHistory } from '#internal/dev/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { StoreAddress } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { FiguresNote } from './figures-note.ts'
import { sampleTenant } from './sample.ts'
import { knowsSampleKey } from './welcome.ts'

/** What demo traffic is made with. */
export interface DemoOptions {
  readonly config: Pick<Config<'dev'>, 'devDemo'>
  readonly env: Readonly<Record<string, string | undefined>>
  readonly database: StoreAddress
  readonly directory: Directory
  /** Base URL of the API, without / at the end. */
  readonly apiUrl: string
  /** Prints a line for the person at the terminal. */
  readonly say: (line: string) => void
  /** Told of figures that are made up. */
  readonly figuresNote: Pick<FiguresNote, 'know'>
}

const intervalMs = 4_000
const turnMsMax = 30_000
/** Room for the history's largest statement on a slow machine. */
const historyPool = { applicationName: 'latchkey-dev demo', connectionsMax: 2, queryTimeoutMs: 10_000 }

/**
 * Starts the sample tenant's demo traffic for the scope's life, at most an event each four seconds after a burst; with the first one
 * a made-up history of figures is written, of which the dashboard is told. Does nothing where the tenants are not the samples, or it is switched off.
 */
export async function startDemo(
  options: DemoOptions,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  const { config, env, database, directory, apiUrl, say } = options
  const tenant = directory.findTenantBySlug(sampleTenant.slug)
  if (env['LATCHKEY_TENANTS_DIR'] || !tenant || !knowsSampleKey(directory)) return
  const pool = await openPostgres('postgres of the demo', { ...historyPool, ...database }, telemetry, scope)
  const tellOfHistory = async () => {
    const untilMs = await readMadeUpUntil(pool, tenant.id)
    if (untilMs !== undefined) options.figuresNote.know(tenant.id, untilMs)
  }
  // An earlier start's stays, whether or not there is traffic now.
  await tellOfHistory()
  if (!config.devDemo) return
  say(
    'Demo traffic: made-up events of the sample tenant come in all the time (LATCHKEY_DEV_DEMO=false: none)',
  )
  const traffic = new DemoTraffic({ ...sampleTenant, url: apiUrl })
  let hasBegun = false
  await openLoop(
    {
      ...{ name: 'demo traffic', intervalMs, turnMsMax, jitter: 0.5 },
      runOnce: async (signal) => {
        if (traffic.isFutile) return
        if (hasBegun) await traffic.next(signal)
        else {
          await writeDemoHistory({ pool, tenantId: tenant.id, nowMs: Date.now(), random: Math.random })
          await tellOfHistory()
          hasBegun = true
          await traffic.burst(signal)
        }
        if (traffic.isFutile)
          say('Demo traffic: the sample tenant is not what it was, so that it comes to nothing: it has ended')
      },
      onError: (cause, failures) =>
        telemetry.log.warn({ failures, cause }, 'the demo’s history could not be written, trying again'),
    },
    telemetry,
    scope,
  )
}
