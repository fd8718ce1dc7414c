import { expectOk } from '#internal/kube/index.ts'
import { until } from '#test/support/until.ts'
import type { ClusterAccess } from './cluster.ts'
import { run } from './installation.ts'

/** Permission on Tenants. */
export interface Right {
  readonly verb: string
  /** For example `tenants/payloads`. */
  readonly resource: string
  /** Limits the right to this tenant. */
  readonly tenant?: string
}

/** Service accounts of one namespace, as users of the back office. */
export interface ClusterUsers {
  /** Returns the account's user name at the API server. */
  account(name: string): string
  /** Requests a token by `kubectl create token`. */
  tokenOf(name: string, audiences: readonly string[]): Promise<string>
  /** Binds a cluster-wide role, given as kubectl flags, and waits until the API server applies it. */
  bind(name: string, role: readonly string[]): Promise<void>
  /** Grants a right in a namespace, or on one tenant in it, and waits until the API server applies it. */
  grant(name: string, namespace: string, right: Right): Promise<void>
  /** Deletes the cluster-wide bindings. */
  close(): Promise<void>
}

/** Opens the existing service accounts of a namespace. */
export function openUsers(admin: ClusterAccess, namespace: string): ClusterUsers {
  const clusterWide: string[] = []
  const account = (name: string) => `system:serviceaccount:${namespace}:${name}`
  // Waits until the API server applies the rule: an earlier request of a test would be refused, and the refusal cached.
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
      // Applies a manifest, because `kubectl create role` accepts only resources that the API server knows.
      const rule = {
        apiGroups: ['latchkey.dev'],
        resources: [resource],
        verbs: [verb],
        ...(tenant !== undefined && { resourceNames: [tenant] }),
      }
      const manifest = {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'Role',
        metadata: { name: role, namespace: where },
        rules: [rule],
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
