import { createEventId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { adminToken, openBackofficeOn } from '#test/support/backoffice.ts'
import { openDashboardSession } from '#test/support/dashboard/dashboard-session.ts'
import { quantileOf } from '../bounds.ts'
import type { Held } from '../webhooks/bounds.ts'

/** Pages to open. */
export interface PageOptions {
  readonly databaseUrl: string
  readonly redisUrl: string
  /** Ids of existing events. */
  readonly eventIds: readonly string[]
  readonly slug: string
  readonly calls: number
}

/** Results of opening pages. */
export interface PageFigures {
  /** Lines of a table. */
  readonly table: readonly string[]
  readonly held: readonly Held[]
}

const pageMsMax = 100
/** Bound of a page as it is transferred, without the script and the style sheet, which browsers keep. */
const pageKibMax = 100
const gzipLevel = 5

/**
 * Opens the dashboard's pages one after another as a user with all rights. Times include authorization, reads, redaction,
 * rendering, compression and loopback.
 */
export async function measurePages(options: PageOptions): Promise<PageFigures> {
  const { databaseUrl, redisUrl, eventIds, slug, calls } = options
  const opened = await openBackofficeOn({ databaseUrl, redisUrl })
  try {
    const session = await openDashboardSession(opened.url, adminToken)
    const replayId = await addReplay(opened.pool, eventIds.slice(0, replayedMax))
    const paths: readonly [name: string, path: (nth: number) => string][] = [
      ['overview, 1 hour', () => '/?range=1h'],
      ['overview, 30 days', () => '/?range=30d'],
      ['events', () => '/events'],
      ['events of a tenant that failed', () => `/events?tenant=${slug}&state=delivery_failed`],
      ['events of a family of types', () => '/events?type=payment.*'],
      ['events by a status that failed', () => '/events?status=5xx'],
      ['events with slow attempts', () => '/events?slowerThanMs=1000'],
      ['events by type and provider', () => '/events?type=payment.failed&provider=card'],
      ['one event', (nth) => `/events/${eventIds[(nth * 7919) % eventIds.length] ?? ''}`],
      ['refused calls', () => '/refused'],
      ['replays', () => '/replays'],
      ['one replay of 1 000 events', () => `/replays/${replayId}`],
      ['what failed again in it', () => `/events?tenant=${slug}&replay=${replayId}&outcome=failed`],
      ['tenants', () => '/tenants'],
      ['one tenant', () => `/tenants/${slug}`],
      ['usage', () => `/usage?tenant=${slug}`],
      ['simulations', () => '/simulations'],
      ['lock history', () => `/executions?tenant=${slug}`],
      ['settings', () => '/settings'],
      ['audit log', () => '/audit'],
      ['jump to a tenant', () => `/jump?find=${slug}`],
      ['jump to an event', (nth) => `/jump?find=${eventIds[(nth * 7919) % eventIds.length] ?? ''}`],
    ]
    const timed = []
    for (const [name, pathOf] of paths) timed.push({ name, ...(await time(session, pathOf, calls)) })
    const rows = timed.map(
      ({ name, p50, p95, plainKib, gzipKib }) =>
        `| ${name} | ${p50.toFixed(1)} | ${p95.toFixed(1)} | ${gzipKib.toFixed(1)} | ${plainKib.toFixed(0)} |`,
    )
    return {
      table: ['| page | p50 ms | p95 ms | KiB | KiB before compression |', '|---|---|---|---|---|', ...rows],
      held: timed.flatMap(({ name, p95, gzipKib }) => [
        { name: `page: ${name}, p95`, value: p95, unit: ' ms', atMost: pageMsMax },
        { name: `page: ${name}, size`, value: gzipKib, unit: ' KiB', atMost: pageKibMax },
      ]),
    }
  } finally {
    await opened.close()
  }
}

/** Events of the replay whose page is opened: as many as its outcome covers. */
const replayedMax = 1_000

/** Adds a replay that queued these events, of all days, in their current delivery cycle. */
async function addReplay(pool: Pool, eventIds: readonly string[]): Promise<string> {
  const id = createEventId(Date.now(), 0).replace('evt_', 'rpl_')
  await pool.query(
    `INSERT INTO replays (id, idempotency_key, tenant_id, filter, rate_per_second, requested_by, state, total_count, total_is_exact,
       ends_before, queued_count, queued, created_at, started_at, ended_at, next_step_at)
     SELECT $1, $1, min(tenant_id), '{"fromMs":0}', 50, 'bench', 'completed', $3, true, 'evt_z', $3, $2::text[], now(), now(), now(), now()
     FROM events WHERE id = ANY($4::text[])`,
    [id, eventIds.map((each) => `${each}:1`), eventIds.length, eventIds.slice(0, 1)],
  )
  return id
}

async function time(
  session: Awaited<ReturnType<typeof openDashboardSession>>,
  pathOf: (nth: number) => string,
  calls: number,
): Promise<{ p50: number; p95: number; plainKib: number; gzipKib: number }> {
  const takenMs: number[] = []
  let largest = ''
  for (let nth = 0; nth <= calls; nth += 1) {
    const startedAt = performance.now()
    const { status, html } = await session.get(pathOf(nth))
    if (nth > 0) takenMs.push(performance.now() - startedAt)
    if (status !== 200) throw new Error(`${pathOf(nth)} was answered ${status}`)
    if (html.length > largest.length) largest = html
  }
  const sorted = takenMs.toSorted((one, other) => one - other)
  const at = (share: number) => quantileOf(sorted, share)
  const kib = (bytes: Uint8Array) => bytes.length / 1024
  return {
    p50: at(0.5),
    p95: at(0.95),
    plainKib: kib(Buffer.from(largest)),
    gzipKib: kib(Bun.gzipSync(largest, { level: gzipLevel })),
  }
}
