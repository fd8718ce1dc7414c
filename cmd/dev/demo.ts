import { openLoop } from '#cmd/serving/loop.ts'
import { openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import type { DashboardOptions } from '#internal/dashboard/index.ts'
import { DemoTraffic, readMadeUpUntil, writeDemoHistory } from '#internal/dev/index.ts'
import type { StoreAddress } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { knowsSampleKey, sampleTenant } from './welcome.ts'

/** Dashboard note that is shown above charts with generated statistics. */
export interface StatsNote {
  /** Returns the note for charts that contain generated statistics, and undefined for other charts. */
  readonly note: NonNullable<DashboardOptions['statsNote']>
  /** Sets the tenant whose statistics are generated, and the end of their time range. */
  know(tenantId: TenantId, untilMs: number): void
}

const intervalMs = 4_000
const turnMsMax = 30_000
/**
 * Options of the connection pool of the demo. The query timeout is long enough for the largest statement that writes the generated
 * statistics on a slow machine.
 */
const historyPool = { applicationName: 'latchkey-dev demo', connectionsMax: 2, queryTimeoutMs: 10_000 }

export function createStatsNote(): StatsNote {
  let madeUp: { readonly tenantId: TenantId; readonly untilMs: number } | undefined
  return {
    know: (tenantId, untilMs) => void (madeUp = { tenantId, untilMs }),
    note({ fromMs, tenantId }) {
      if (madeUp === undefined || fromMs >= madeUp.untilMs) return undefined
      if (tenantId !== undefined && tenantId !== madeUp.tenantId) return undefined
      const until = new Date(madeUp.untilMs).toISOString()
      return {
        title: `Stats from before ${until.slice(0, 10)} ${until.slice(11, 16)} UTC are made up`,
        text: 'This dev server generated them for the demo tenant, so that charts have a shape. There are no events behind them: the lists that they link to show only events that were received.',
      }
    },
  }
}

/**
 * Generates a history of statistics, then sends demo traffic of the sample tenant until the scope closes: first a burst, then about one
 * event every four seconds. Does nothing without the sample tenants, or if the demo is switched off.
 */
export async function startDemo(
  host: Host,
  options: {
    readonly config: Pick<Config<'dev'>, 'devDemo'>
    readonly env: Readonly<Record<string, string | undefined>>
    readonly database: StoreAddress
    readonly directory: Directory
    /** Base URL of the API, without a trailing slash. */
    readonly apiUrl: string
    readonly say: (line: string) => void
    readonly statsNote: StatsNote
  },
): Promise<void> {
  const { config, env, database, directory, apiUrl, say, statsNote } = options
  const tenant = directory.findTenantBySlug(sampleTenant.slug)
  if (env['LATCHKEY_TENANTS_DIR'] || !tenant || !knowsSampleKey(directory)) return
  const pool = await openPostgres(host, 'postgres of the demo', { ...historyPool, ...database })
  const noteHistory = async () => {
    const untilMs = await readMadeUpUntil(pool, tenant.id)
    if (untilMs !== undefined) statsNote.know(tenant.id, untilMs)
  }
  // The note is needed even without demo traffic, because the statistics that an earlier start generated remain.
  await noteHistory()
  if (!config.devDemo) return
  say(
    'Demo traffic: generated events of the sample tenant arrive continuously; some are refused or fail, which logs warnings (LATCHKEY_DEV_DEMO=false turns it off)',
  )
  const traffic = new DemoTraffic({ ...sampleTenant, url: apiUrl })
  let hasBegun = false
  await openLoop(host, {
    name: 'demo traffic',
    intervalMs,
    turnMsMax,
    jitter: 0.5,
    runOnce: async (signal) => {
      if (traffic.isFutile) return
      if (hasBegun) await traffic.next(signal)
      else {
        await writeDemoHistory({ pool, tenantId: tenant.id, nowMs: Date.now(), random: Math.random })
        await noteHistory()
        hasBegun = true
        await traffic.burst(signal)
      }
      if (traffic.isFutile)
        say('Demo traffic has stopped, because the sample tenant was changed and its calls fail')
    },
    onError: (cause, failures) =>
      host.log.warn({ failures, cause }, 'demo history could not be written; retrying'),
  })
}
