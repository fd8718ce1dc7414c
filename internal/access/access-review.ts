import type { KubeFailure, Transport } from '#internal/kube/index.ts'
import { tenantApiVersion } from '#internal/tenants/index.ts'
import { type Action, actionRules } from './action.ts'
import type { KubeUser } from './actor.ts'
import { reviewMsMax } from './token-review.ts'

/** On what: one tenant, all of a namespace, or all there are. */
export interface AccessPlace {
  /** Absent: the whole cluster. */
  readonly namespace?: string | undefined
  /** Absent: any. */
  readonly name?: string | undefined
}

/** What the API server says. It is asked each time anew, so that a right that is taken away ends. */
export type AccessVerdict =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'refused' }
  | { readonly kind: 'unavailable'; readonly failure: KubeFailure }

const answerBytesMax = 1024 * 1024
const [group, version] = tenantApiVersion.split('/')

/** Asks the API server whether a user may do something somewhere. Never throws; repeating it is safe. */
export async function reviewAccess(
  transport: Transport,
  user: KubeUser,
  action: Action,
  place: AccessPlace,
): Promise<AccessVerdict> {
  const { verb, subresource } = actionRules[action]
  const answer = await transport.request({
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        resourceAttributes: {
          ...{ group, version, resource: 'tenants', verb },
          ...(subresource !== '' && { subresource }),
          ...(place.namespace !== undefined && { namespace: place.namespace }),
          ...(place.name !== undefined && { name: place.name }),
        },
        user: user.username,
        groups: user.groups,
        extra: user.extra,
        ...(user.uid !== '' && { uid: user.uid }),
      },
    },
    msMax: reviewMsMax,
    bytesMax: answerBytesMax,
  })
  if (answer.kind !== 'ok') return { kind: 'unavailable', failure: answer }
  return { kind: isAllowed(answer.value) ? 'allowed' : 'refused' }
}

function isAllowed(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !('status' in value)) return false
  const { status } = value
  if (typeof status !== 'object' || status === null) return false
  const isDenied = 'denied' in status && status.denied === true
  return 'allowed' in status && status.allowed === true && !isDenied
}
