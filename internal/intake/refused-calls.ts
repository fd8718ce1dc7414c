import {
  type Clock,
  dayAfter,
  encodeBase32,
  expectPageLimit,
  pageOf,
  type TenantId,
} from '#internal/base/index.ts'
import {
  BufferedWriter,
  ensurePartitions,
  type Pool,
  textArrayParam,
  writeRowsOrThrow,
} from '#internal/storage/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import type { RefusalCause } from './provider.ts'

/** Causes of refusing a call for a known tenant, besides those of the adapters; a closed set, used as metric label. */
export const refusedCauses = [
  'tenant_suspended',
  'provider_not_configured',
  'provider_not_enabled',
  'secrets_missing',
  'secrets_unreadable',
  'loop_detected',
  'provider_paused',
  'certificate_unavailable',
  'events_per_minute',
  'events_per_month',
] as const
/** Any cause of refusing a call. */
export type RefusedCause = RefusalCause | (typeof refusedCauses)[number]

/** A refused call as recorded; its tenant may see all of it. */
export interface RefusedCall {
  readonly tenantId: TenantId
  /** Retention. */
  readonly days: number
  readonly provider: ProviderName
  readonly cause: RefusedCause
  readonly sourceAddress: string | null
  /** JSON text of an object of strings, without credentials. */
  readonly headers: string
  /** The start of a body whose signature failed. */
  readonly sample: string | null
}

interface NotedCall extends RefusedCall {
  readonly id: string
  readonly atMs: number
}

const perSecondMax = 10
const waitingMax = 1_000
const sampleBytesMax = 1_024
const tenantCausesMax = 10_000

/** Returns the first KiB of a body as text without NUL, which Postgres refuses. */
export function sampleOf(body: Uint8Array): string {
  return new TextDecoder().decode(body.subarray(0, sampleBytesMax)).replaceAll('\0', '\ufffd')
}

/** A byte order mark is not part of the text. */
const byteOrderMarkBytes = 3

/** Returns whether a sample is the whole body; false if it may have been cut. Pure. */
export function isWholeSample(sample: string): boolean {
  return Buffer.byteLength(sample) < sampleBytesMax - byteOrderMarkBytes
}

/** Buffer of refused calls before Postgres: ten per second for each tenant and cause, 1 000 waiting; the rest is counted as dropped. */
export class RefusedCalls {
  readonly #pool: Pool
  readonly #clock: Clock
  readonly #writer: BufferedWriter<NotedCall[]>
  readonly #waiting: NotedCall[] = []
  #second = 0
  readonly #noted = new Map<string, number>()
  #dropped = 0

  constructor(pool: Pool, clock: Clock) {
    this.#pool = pool
    this.#clock = clock
    this.#writer = new BufferedWriter({
      take: () => (this.#waiting.length > 0 ? this.#waiting.splice(0) : undefined),
      write: (calls) => this.#write(calls),
    })
  }

  /** Calls dropped since the process started. */
  get dropped(): number {
    return this.#dropped
  }

  /** Reserves room for a call of this tenant and cause; false, and counted as dropped, if there is none. */
  hasRoom(tenantId: TenantId, cause: RefusedCause): boolean {
    const second = Math.floor(this.#clock.now() / 1000)
    if (second !== this.#second) {
      this.#second = second
      this.#noted.clear()
    }
    const key = `${tenantId} ${cause}`
    const count = this.#noted.get(key) ?? 0
    const waiting = this.#waiting.length + (this.#writer.pending?.length ?? 0)
    const full = waiting >= waitingMax || this.#noted.size >= tenantCausesMax
    if (count >= perSecondMax || full) {
      this.#dropped += 1
      return false
    }
    this.#noted.set(key, count + 1)
    return true
  }

  /** Adds a call that `hasRoom` admitted. */
  note(call: RefusedCall): void {
    const id = `ref_${encodeBase32(idBytes(this.#clock.now()))}`
    this.#waiting.push({ ...call, id, atMs: this.#clock.now() })
  }

  /**
   * Writes all waiting calls in one statement. Calls that Postgres rejects are dropped and counted.
   * @throws what Postgres throws while it is unavailable; the calls are written by the next flush
   */
  async flush(): Promise<void> {
    // A batch that failed before, and the calls since.
    await this.#writer.flush(2)
  }

  async #write(calls: readonly NotedCall[]): Promise<void> {
    const rejected = await writeRowsOrThrow(calls, {
      write: (part) => insertRefusedCalls(this.#pool, part),
      createPartitions: (part) => {
        const days = new Set(part.map(expiresOn))
        return ensurePartitions(
          this.#pool,
          Array.from(days, (day) => ({ table: 'refused_calls', day })),
        )
      },
    })
    this.#dropped += rejected.length
  }
}

/** Makes the bytes of an id that sorts by time, as event ids do. */
function idBytes(nowMs: number): Buffer {
  const bytes = Buffer.from(crypto.getRandomValues(new Uint8Array(16)))
  bytes.writeUIntBE(nowMs, 0, 6)
  return bytes
}

function expiresOn({ atMs, days }: NotedCall): string {
  return dayAfter(atMs, days)
}

// Idempotent: a repeat meets its own ids.
async function insertRefusedCalls(pool: Pool, calls: readonly NotedCall[]): Promise<void> {
  const column = (pick: (call: NotedCall) => string | null) => textArrayParam(calls.map(pick))
  await pool.query({
    name: 'insert_refused_calls',
    text: `INSERT INTO refused_calls (id, expires_on, tenant_id, provider, cause, refused_at, source_address, headers, sample)
      SELECT id, expires_on::date, tenant_id, provider, cause, refused_at::timestamptz, source_address, headers, sample
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
        AS c(id, expires_on, tenant_id, provider, cause, refused_at, source_address, headers, sample)
      ON CONFLICT DO NOTHING`,
    values: [
      column(({ id }) => id),
      column(expiresOn),
      column(({ tenantId }) => tenantId),
      column(({ provider }) => provider),
      column(({ cause }) => cause),
      column(({ atMs }) => new Date(atMs).toISOString()),
      column(({ sourceAddress }) => sourceAddress),
      column(({ headers }) => headers),
      column(({ sample }) => sample),
    ],
  })
}

/** Request for a page of a tenant's refused calls. */
export interface RefusedListRequest {
  readonly tenantId: TenantId
  readonly provider?: string
  readonly cause?: string
  /** `next` of the previous page. */
  readonly after?: string
  /** 1 to 100. */
  readonly limit: number
}

/** A refused call as listed. */
export interface RefusedCallView {
  readonly id: string
  readonly provider: string
  readonly cause: string
  readonly refusedAtMs: number
  readonly sourceAddress: string | null
  /** JSON text of an object of strings, without credentials. */
  readonly headers: string
  /** The start of a body whose signature failed. */
  readonly sample: string | null
}

/** A page, newest first. `next` is undefined on the last one; a short page with `next` reached its search bound. */
export interface RefusedPage {
  readonly calls: readonly RefusedCallView[]
  readonly next: string | undefined
}

/** Sorts after every id. */
const behindAll = 'ref_~'

interface ExaminedCall extends RefusedCallView {
  /** The last call examined; included even if it does not match the filter. */
  readonly isEdge: boolean
}

/** Calls that a filtered page examines. */
const examinedMax = 1_000

// Index: (tenant_id, id), in its order, in partitions that have not expired. The tenant stands in the comparison and in the order, so
// that the planner chooses no other index.
const listText = `
SELECT id, provider, cause, floor(extract(epoch FROM refused_at) * 1000)::bigint AS "refusedAtMs",
  source_address AS "sourceAddress", headers, sample
FROM refused_calls
WHERE expires_on >= $1::date AND (tenant_id, id) >= ($2, '') AND (tenant_id, id) < ($2, $3)
ORDER BY tenant_id DESC, id DESC LIMIT $4::bigint`

// As above, within a bounded range whose last row is always included, to tell where it ended.
const searchText = `
SELECT id, provider, cause, "refusedAtMs", "sourceAddress", headers, sample, nth = ${examinedMax} AS "isEdge"
FROM (
  SELECT id, provider, cause, floor(extract(epoch FROM refused_at) * 1000)::bigint AS "refusedAtMs",
    source_address AS "sourceAddress", headers, sample, tenant_id, row_number() OVER (ORDER BY tenant_id DESC, id DESC) AS nth
  FROM refused_calls
  WHERE expires_on >= $1::date AND (tenant_id, id) >= ($2, '') AND (tenant_id, id) < ($2, $3)
  ORDER BY tenant_id DESC, id DESC LIMIT ${examinedMax}
) AS examined
WHERE ($5::text IS NULL OR provider = $5) AND ($6::text IS NULL OR cause = $6) OR nth = ${examinedMax}
ORDER BY tenant_id DESC, id DESC LIMIT $4::bigint`

/**
 * Lists a tenant's refused calls, without expired ones. With a filter it examines at most 1 000 calls. Needs a pool with
 * `eventReadSettings`.
 * @throws RangeError for a limit out of its bounds; errors of Postgres
 */
export async function listRefusedCalls(
  pool: Pool,
  { tenantId, provider, cause, after, limit }: RefusedListRequest,
  nowMs: number,
): Promise<RefusedPage> {
  expectPageLimit(limit, 'calls')
  const values = [dayAfter(nowMs, 0), tenantId, after ?? behindAll, limit + 1]
  if (provider === undefined && cause === undefined) {
    const { rows } = await pool.query<RefusedCallView>({ name: 'list_refused_calls', text: listText, values })
    const { page, next } = pageOf(rows, limit)
    return { calls: page, next }
  }
  const { rows } = await pool.query<ExaminedCall>({
    ...{ name: 'search_refused_calls', text: searchText },
    values: [...values, provider ?? null, cause ?? null],
  })
  const { page, next } = pageOf(rows, limit)
  const isMeant = (call: RefusedCallView) =>
    (provider === undefined || call.provider === provider) && (cause === undefined || call.cause === cause)
  const calls = page.filter(isMeant).map(({ isEdge: _edge, ...call }) => call)
  // Older calls than the last examined row were not searched.
  return { calls, next: next ?? page.find(({ isEdge }) => isEdge)?.id }
}
