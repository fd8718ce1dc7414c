import { poll } from '#internal/dev/index.ts'
import { expectOk, kubeEvents, type Secret, secrets } from '#internal/kube/index.ts'
import { type TenantObject, tenantObjects } from '#internal/tenants/index.ts'
import type { ClusterAccess } from './cluster.ts'

const waitMsMax = 30_000
const eventMsMax = 15_000

/** Administrator's operations on Tenants and their Secrets. */
export interface TenantCalls {
  create(namespace: string, name: string, part?: TenantPart): Promise<TenantObject>
  /** Applies a merge patch. */
  patch(namespace: string, name: string, patch: object): Promise<TenantObject>
  remove(namespace: string, name: string): Promise<void>
  tenant(namespace: string, name: string): Promise<TenantObject>
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** Creates a Secret that is labelled for a tenant. */
  addSecret(
    place: { namespace: string; name: string; tenant?: string },
    values: Record<string, string>,
  ): Promise<void>
  /** Waits until the Tenant satisfies `wanted`. @throws after 30 s with the last status */
  becomes(
    namespace: string,
    name: string,
    wanted: (tenant: TenantObject) => boolean,
    deadlineMs?: number,
  ): Promise<TenantObject>
  /** Waits until Ready is True for the current generation. */
  ready(namespace: string, name: string, deadlineMs?: number): Promise<TenantObject>
  /** Waits until a condition has this reason; returns its message. */
  reason(namespace: string, name: string, type: string, reason: string): Promise<string>
  /** Waits for an event with this reason; undefined after 15 s. */
  told(
    namespace: string,
    name: string,
    reason: string,
  ): Promise<{ readonly type: string; readonly note: string } | undefined>
  /** Waits until the Tenant is deleted; false if it still exists. */
  isGone(namespace: string, name: string, deadlineMs?: number): Promise<boolean>
}

/** Parts of a Tenant that a test sets. */
export interface TenantPart {
  readonly spec?: Readonly<Record<string, unknown>>
  readonly annotations?: Readonly<Record<string, string>>
}

/** Creates the operations for an administrator. */
export function createTenantCalls({ client }: ClusterAccess): TenantCalls {
  const tenant = async (namespace: string, name: string) =>
    expectOk('reading a Tenant', await client.get(tenantObjects, { namespace, name }))
  const becomes: TenantCalls['becomes'] = async (namespace, name, wanted, deadlineMs = waitMsMax) => {
    let last: TenantObject | undefined
    const found = await poll(
      async () => {
        last = await tenant(namespace, name)
        return wanted(last) ? last : undefined
      },
      { deadlineMs },
    )
    if (found) return found
    throw new Error(`${namespace}/${name}: ${JSON.stringify(last?.status, undefined, 1)}`)
  }
  return {
    tenant,
    becomes,
    async create(namespace, name, { spec = {}, annotations = {} } = {}) {
      const object = {
        metadata: { namespace, name, annotations },
        spec: { slug: name, callback: { url: 'https://hooks.example/' }, ...spec },
      }
      return expectOk('making a Tenant', await client.create(tenantObjects, object))
    },
    patch: async (namespace, name, patch) =>
      expectOk('patching a Tenant', await client.mergePatch(tenantObjects, { namespace, name }, patch)),
    async remove(namespace, name) {
      const removed = await client.remove(tenantObjects, { namespace, name })
      if (removed.kind !== 'notFound') expectOk('deleting a Tenant', removed)
    },
    told: (namespace, name, reason) =>
      poll(
        async () => {
          const { items } = expectOk('events', await client.list(kubeEvents, { namespace }))
          const found = items.find(
            (event) => event.reason === reason && JSON.stringify(event.regarding).includes(`"${name}"`),
          )
          return found && { type: found.type ?? '', note: found.note ?? '' }
        },
        { deadlineMs: eventMsMax },
      ),
    async secret(namespace, name) {
      const found = await client.get(secrets, { namespace, name })
      return found.kind === 'notFound' ? undefined : expectOk('reading a Secret', found)
    },
    async addSecret({ namespace, name, tenant: owner }, values) {
      const data = Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')])
      const labels = owner === undefined ? {} : { 'latchkey.dev/tenant': owner }
      const object = {
        metadata: { namespace, name, labels },
        data: Object.fromEntries(data) as Record<string, string>,
      }
      expectOk('making a Secret', await client.create(secrets, object))
    },
    ready: (namespace, name, deadlineMs) => becomes(namespace, name, isReady, deadlineMs),
    async reason(namespace, name, type, reason) {
      const object = await becomes(namespace, name, (each) => conditionOf(each, type)?.reason === reason)
      return conditionOf(object, type)?.message ?? ''
    },
    async isGone(namespace, name, deadlineMs = waitMsMax) {
      const isAbsent = async () =>
        (await client.get(tenantObjects, { namespace, name })).kind === 'notFound' || undefined
      return (await poll(isAbsent, { deadlineMs })) ?? false
    },
  }
}

/** Returns whether a Tenant is Ready at its current generation. */
export function isReady(object: TenantObject): boolean {
  const isNew = object.status?.observedGeneration !== object.metadata.generation
  return !isNew && conditionOf(object, 'Ready')?.status === 'True'
}

/** Finds a condition of a Tenant. */
export function conditionOf({ status }: TenantObject, type: string) {
  return status?.conditions?.find((condition) => condition.type === type)
}

/** Returns the text of an entry of a Secret. */
export function entryOf(secret: Secret | undefined, entry: string): string {
  return Buffer.from(secret?.data?.[entry] ?? '', 'base64').toString('utf8')
}
