import { expectOk, type KubeClient, type KubeObject, type Resource } from '#internal/kube/index.ts'
import { tenantFinalizer } from '../tenant-object.ts'

/** Field manager of status writes. Metadata writes use a different one. */
const statusManager = 'latchkey-operator-status'

/** Returns undefined if the object has changed since it was read. The change causes a new reconciliation. @throws when the write fails */
export async function addFinalizer(
  client: KubeClient,
  of: Resource<KubeObject>,
  { metadata }: KubeObject,
): Promise<KubeObject['metadata'] | undefined> {
  const { resourceVersion, finalizers = [] } = metadata
  const patch = { metadata: { resourceVersion, finalizers: [...finalizers, tenantFinalizer] } }
  const result = await client.mergePatch(of, metadata, patch)
  if (result.kind === 'conflict' || result.kind === 'notFound') return undefined
  return expectOk(`cannot add the finalizer to a ${of.kind}`, result).metadata
}

/** Returns false if the object has changed since it was read. @throws when the write fails */
export async function removeFinalizer(
  client: KubeClient,
  of: Resource<KubeObject>,
  { metadata }: KubeObject,
): Promise<boolean> {
  const { resourceVersion, finalizers = [] } = metadata
  const kept = finalizers.filter((each) => each !== tenantFinalizer)
  const patch = { metadata: { resourceVersion, finalizers: kept } }
  const result = await client.mergePatch(of, metadata, patch)
  if (result.kind === 'conflict') return false
  if (result.kind !== 'notFound') expectOk(`cannot remove the finalizer of a ${of.kind}`, result)
  return true
}

/** Returns false if the object was deleted or recreated after it was read. @throws when the write fails */
export async function applyStatus(
  client: KubeClient,
  of: Resource<KubeObject & { readonly status?: object }>,
  { metadata: { namespace, name, uid } }: KubeObject,
  status: object,
): Promise<boolean> {
  const metadata = {
    name,
    ...(namespace !== undefined && { namespace }),
    ...(uid !== undefined && { uid }),
  }
  const terms = { fieldManager: statusManager, force: true, subresource: 'status' } as const
  const result = await client.apply(of, { metadata, status }, terms)
  if (result.kind === 'notFound' || result.kind === 'conflict') return false
  expectOk(`cannot write the status of a ${of.kind}`, result)
  return true
}
