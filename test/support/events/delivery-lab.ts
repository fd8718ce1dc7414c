import { type EventId, systemClock, type TenantId } from '#internal/base/index.ts'
import { Forwarder, type ForwarderOptions } from '#internal/delivery/forwarder.ts'
import type { AttemptReport, ForwarderObserver } from '#internal/delivery/telemetry.ts'
import { poll } from '#internal/dev/index.ts'
import { createOutbound } from '#internal/egress/index.ts'
// Tests may import any file of a module in `internal`, not only its `index.ts`.
import {
  type ClaimRequest,
  type ClaimResult,
  claimDue,
  queueSessionSettings,
} from '#internal/events/claim.ts'
import type { ClaimedDelivery, ReceivedEvent } from '#internal/events/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { tracingOff } from '#internal/telemetry/tracing.ts'
import { callbackField, type DirectoryTenant, notificationsField } from '#internal/tenants/index.ts'
import { openerOf, testKeyRing } from '../api.ts'
import { createMigratedDatabase } from '../migrated-database.ts'
import { directoryTenant, someTenantId } from '../tenants/directory-tenant.ts'
import { acceptEvents } from './accepted-event.ts'
import { callbackSecret } from './callback-receiver.ts'
import { receivedEvent } from './received-event.ts'

/** Database with tenants and events, and forwarders on it. */
export interface DeliveryLab {
  /** Pool with the session settings of forwarders. */
  readonly pool: Pool
  readonly databaseUrl: string
  /** Creates a tenant with this callback in Postgres and in the forwarders' directory. */
  addTenant(options?: TenantOptions): Promise<DirectoryTenant>
  /** Removes the tenant's callback, or brings it back. */
  setCallback(id: TenantId, callback: DirectoryTenant['callback']): Promise<void>
  /** Changes the tenant's settings, in memory only. */
  changeTenant(id: TenantId, fields: Partial<DirectoryTenant>): void
  /** Inserts `count` events of a tenant as intake does. */
  accept(tenantId: TenantId, count?: number, fields?: Partial<ReceivedEvent>): Promise<EventId[]>
  claim(request?: Partial<ClaimRequest>): Promise<ClaimResult>
  forwarder(options?: Partial<ForwarderOptions>): LabForwarder
  /** Returns the first column of the first row. */
  value<T>(text: string, values?: unknown[]): Promise<T>
  /** Waits until the query's first value equals `expected`. @throws after 15 s with the last value */
  becomes(expected: unknown, text: string, values?: unknown[]): Promise<void>
  close(): Promise<void>
}

/** URL and retry schedule of a tenant's callback. */
export interface TenantOptions {
  readonly url?: string
  readonly schedule?: readonly string[]
  readonly timeoutSeconds?: number
  readonly secrets?: readonly string[]
  /** True for a tenant without a callback. Default: false. */
  readonly isPullOnly?: boolean
  /** Receiver of notifications. Default: none. */
  readonly notifications?: { readonly url: string } & Partial<NonNullable<DirectoryTenant['notifications']>>
}

/** Forwarder with its recorded notifications. */
export interface LabForwarder {
  readonly forwarder: Forwarder
  readonly attempts: AttemptReport[]
  readonly observed: {
    lost: number
    unwritable: number
    swept: number
    released: number
    handed: number
    opened: number
    suspended: number
    failed: unknown[]
    notified: string[]
  }
  stop(leftMs?: number): Promise<void>
}

const local = ['127.0.0.0/8']

/** Creates a lab. The caller closes it, which stops its forwarders. */
export async function createDeliveryLab(): Promise<DeliveryLab> {
  const database = await createMigratedDatabase()
  const pool = createPool({
    url: database.url,
    applicationName: 'latchkey test deliveries',
    connectionsMax: 6,
    queryTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
    sessionSettings: queueSessionSettings,
  })
  const tenants = new Map<string, DirectoryTenant>()
  const running = new Set<LabForwarder>()
  const outbound = createOutbound({ cidrsMax: local, ports: 'any' })
  const value = async <T>(text: string, values: unknown[] = []): Promise<T> => {
    const { rows } = await pool.query<[T]>({ text, values, rowMode: 'array' })
    return rows[0]?.[0] as T
  }
  return {
    pool,
    databaseUrl: database.url,
    value,
    async addTenant(options = {}) {
      const tenant = labTenant(options)
      await insertTenant(pool, tenant)
      tenants.set(tenant.id, tenant)
      return tenant
    },
    async setCallback(id, callback) {
      const tenant = tenants.get(id)
      if (!tenant) return
      const next = { ...tenant, callback }
      tenants.set(id, next)
      await pool.query('UPDATE tenants SET spec = $2 WHERE id = $1', [id, specOf(next)])
    },
    changeTenant(id, fields) {
      const tenant = tenants.get(id)
      if (tenant) tenants.set(id, { ...tenant, ...fields })
    },
    accept: (tenantId, count = 1, fields = {}) =>
      acceptEvents(
        pool,
        Array.from({ length: count }, () => receivedEvent({ ...fields, tenantId })),
      ),
    claim: (request) => claimDue(pool, { ...claimRequest(), ...request }),
    forwarder(options = {}) {
      const started = startForwarder({
        pool,
        outbound,
        tracing: tracingOff,
        clock: systemClock,
        secrets: openerOf({ findTenantById: (id) => tenants.get(id) }),
        directory: { findTenantById: (id) => tenants.get(id), hasSnapshot: () => true },
        retentionDefaults: () => ({ payloadDays: 30, eventDays: 90 }),
        ...options,
      })
      running.add(started)
      return started
    },
    async becomes(expected, text, values) {
      let last: unknown
      const done = await poll(
        async () => {
          last = await value(text, values)
          return last === expected || undefined
        },
        { deadlineMs: 15_000 },
      )
      if (!done) throw new Error(`${text}: ${String(last)} instead of ${String(expected)}`)
    },
    async close() {
      await Promise.all([...running].map((one) => one.stop(0)))
      outbound.close()
      await pool.end()
      await database.drop()
    },
  }
}

/** Default options of a claim. */
export function claimRequest(): ClaimRequest {
  return {
    lease: { token: 'lab', lengthMs: 90_000 },
    notified: [],
    rooms: new Map(),
    rowsMax: 200,
    queueRowsMax: 64,
  }
}

/** Returns the event ids of a claim. */
export function idsOf(claimed: readonly ClaimedDelivery[]): EventId[] {
  return claimed.map(({ eventId }) => eventId)
}

function labTenant({
  url,
  schedule,
  timeoutSeconds,
  secrets,
  isPullOnly = false,
  notifications,
}: TenantOptions): DirectoryTenant {
  const id = someTenantId()
  return directoryTenant({
    id,
    callback: isPullOnly
      ? undefined
      : {
          url: url ?? 'http://127.0.0.1:9/',
          rules: {
            timeoutSeconds: timeoutSeconds ?? 15,
            allowedCIDRs: local,
            retryOnRedelivery: false,
            retry: { schedule: [...(schedule ?? ['0s', '0s', '0s'])], jitterPercent: 0 },
          },
        },
    ...(notifications && {
      notifications: { format: 'event', allowedCIDRs: local, timeoutSeconds: 15, ...notifications },
    }),
    secrets: [
      ...(secrets ?? [callbackSecret]).map((secret) => sealed(id, callbackField, secret)),
      ...(notifications ? [sealed(id, notificationsField, callbackSecret)] : []),
    ],
  })
}

function sealed(tenantId: TenantId, field: string, secret: string) {
  const { keyId, nonce, ciphertext } = testKeyRing.seal({ tenantId, field }, secret)
  return { field, keyId, sealedBase64: Buffer.concat([nonce, ciphertext]).toString('base64') }
}

/** Returns the part of a tenant's spec that statements read. */
function specOf({ callback, notifications }: DirectoryTenant): object {
  return { ...(callback && { callback: { url: callback.url } }), ...(notifications && { notifications }) }
}

async function insertTenant(pool: Pool, tenant: DirectoryTenant): Promise<void> {
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ($1, $1, 'shops', $1, $1, false, $2, 1, now(), now(), now())`,
    [tenant.id, specOf(tenant)],
  )
}

function startForwarder(options: Omit<ForwarderOptions, 'observer'>): LabForwarder {
  const attempts: AttemptReport[] = []
  const failed: unknown[] = []
  const notified: string[] = []
  const observed = {
    lost: 0,
    unwritable: 0,
    swept: 0,
    released: 0,
    handed: 0,
    opened: 0,
    suspended: 0,
    failed,
    notified,
  }
  const observer: ForwarderObserver = {
    claimed: () => undefined,
    handed: (count) => {
      observed.handed += count
    },
    attempted: (report) => void attempts.push(report),
    leasesLost: (count) => void (observed.lost += count),
    unwritable: () => void (observed.unwritable += 1),
    swept: (queues) => void (observed.swept += queues),
    released: (count) => void (observed.released += count),
    breakerOpened: () => void (observed.opened += 1),
    callbackSuspended: () => void (observed.suspended += 1),
    notificationsSuspended: () => undefined,
    ownerNotified: (type) => void notified.push(type),
    signingUnavailable: () => undefined,
    failed: (_step, error) => void failed.push(error),
  }
  const forwarder = new Forwarder({ ...options, observer })
  forwarder.start()
  let stopping: Promise<void> | undefined
  return {
    forwarder,
    attempts,
    observed,
    stop(leftMs = 10_000) {
      stopping ??= forwarder.stop(leftMs)
      return stopping
    },
  }
}
