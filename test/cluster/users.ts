import { expectOk } from '#internal/kube/index.ts'
import { until } from '#test/support/until.ts'
import type { ClusterAccess } from './cluster.ts'
import { run } from './installation.ts'

/** A right on Tenants. */
export interface Right {
  readonly verb: string
  /** Such as `tenants/payloads`. */
  readonly resource: string
  /** On this one alone. */
  readonly tenant?: string
}

/** Service accounts of one namespace, as users of the backoffice. */
export interface ClusterUsers {
  /** What the API server calls one. */
  account(name: string): string
  /** A token as `kubectl create token` gives it. */
  tokenOf(name: string, audiences: readonly string[]): Promise<string>
  /** Gives one a role in the whole cluster, by kubectl's flags, and waits until the server goes by it. */
  bind(name: string, role: readonly string[]): Promise<void>
  /** Gives one a right in a namespace, or on one tenant there, and waits until the server goes by it. */
  grant(name: string, namespace: string, right: Right): Promise<void>
  /** Takes what was given for the whole cluster. */
  close(): Promise<void>
}

/** Opens the service accounts of a namespace; they have to be there. */
export function openUsers(admin: ClusterAccess, namespace: string): ClusterUsers {
  const clusterWide: string[] = []
  const account = (name: string) => `system:serviceaccount:${namespace}:${name}`
  // What the server refuses before is remembered for a while.
  const inForce = async (name: string, resourceAttributes: object) => {
    const review = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview' }
    const spec = { user: account(name), resourceAttributes }
    const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
    await until(async () => {
      const answer = await admin.transport.request({ method: 'POST', path, body: { ...review, spec } })
      return (expectOk('asking', answer) as { status: { allowed: boolean } }).status.allowed
    })
  }
  return {
    account,
    async tokenOf(name, audiences) {
      const flags = audiences.map((audience) => `--audience=${audience}`)
      return (await run(['create', 'token', name, '-n', namespace, '--duration=600s', ...flags])).trim()
    },
    async bind(name, role) {
      const binding = `${namespace}-${name}`
      clusterWide.push(binding)
      await run(['create', 'clusterrolebinding', binding, ...role, `--serviceaccount=${namespace}:${name}`])
      await inForce(name, { group: 'authentication.k8s.io', resource: 'tokenreviews', verb: 'create' })
    },
    async grant(name, where, { verb, resource, tenant }) {
      const role = `${name}-${crypto.randomUUID().slice(0, 8)}`
      // By a manifest, since kubectl makes roles of those resources alone that the server has.
      const rule = {
        ...{ apiGroups: ['latchkey.dev'], resources: [resource], verbs: [verb] },
        ...(tenant !== undefined && { resourceNames: [tenant] }),
      }
      const manifest = {
        ...{ apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role' },
        ...{ metadata: { name: role, namespace: where }, rules: [rule] },
      }
      await run(['apply', '-f', '-'], JSON.stringify(manifest))
      const to = [`--role=${role}`, `--serviceaccount=${namespace}:${name}`]
      await run(['create', 'rolebinding', role, '-n', where, ...to])
      const [plural, subresource] = resource.split('/')
      const of = { group: 'latchkey.dev', resource: plural, subresource }
      await inForce(name, { ...of, namespace: where, verb, name: tenant })
    },
    async close() {
      for (const name of clusterWide)
        await run(['delete', 'clusterrolebinding,clusterrole', name, '--ignore-not-found'])
    },
  }
}
