import { beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import {
  buildMsMax,
  buildTools,
  environmentOf,
  named,
  parseObjects,
  podsOf,
  presetFolder,
  type Rendered,
  render,
} from './chart.ts'

beforeAll(buildTools, buildMsMax)

describe('chart', () => {
  test('chart roles: the operator has exactly the rights in config/presets/operator-rbac.yaml', async () => {
    const documented = parseObjects(readFileSync(`${presetFolder}/operator-rbac.yaml`, 'utf8'))
    const objects = await render()
    for (const { kind, metadata, rules, subjects, roleRef } of documented) {
      const ours = objects.find((each) => each.kind === kind && each.metadata.name === metadata.name)
      expect([`${kind} ${metadata.name}`, ours?.rules, ours?.subjects, ours?.roleRef]).toEqual([
        `${kind} ${metadata.name}`,
        rules,
        subjects,
        roleRef,
      ])
      expect(ours?.metadata.namespace).toBe(metadata.namespace)
    }
    const bound = objects.filter(({ subjects = [] }) =>
      subjects.some(({ name }) => name === 'latchkey-operator'),
    )
    expect(bound.map(({ kind, metadata }) => `${kind} ${metadata.name}`).toSorted()).toEqual([
      'ClusterRoleBinding latchkey-operator',
      'RoleBinding latchkey-operator-lease',
    ])
  })

  test('chart roles: only the operator, the cleanup Job and the back office have roles', async () => {
    const objects = await render({ preset: 'production' })
    const subjects = objects.flatMap((each) => each.subjects ?? []).map(({ name }) => name)
    expect([...new Set(subjects)].toSorted()).toEqual([
      'latchkey-backoffice',
      'latchkey-cleanup',
      'latchkey-operator',
    ])
  })

  test('chart roles: the operator may read Secrets in operator.secrets.namespaces, or with clusterWide in all namespaces', async () => {
    const some = await render({ values: { operator: { secrets: { namespaces: ['shops'] } } } })
    const inShops = named(some, 'RoleBinding')['latchkey-operator-secrets']
    expect([inShops?.metadata.namespace, inShops?.roleRef]).toMatchObject(['shops', { kind: 'ClusterRole' }])
    const all = await render({ values: { operator: { secrets: { clusterWide: true } } } })
    expect(named(all, 'ClusterRoleBinding')).toHaveProperty('latchkey-operator-secrets')
    expect(environmentOf(all, 'operator')['LATCHKEY_OPERATOR_SECRETS_CLUSTER_WIDE']).toBe('true')
  })

  test('chart roles: two releases have no cluster-scoped object with the same name', async () => {
    const secrets = { clusterWide: true }
    const first = await render({ values: { operator: { secrets } } })
    const second = await render({
      release: 'other',
      namespace: 'other',
      values: {
        crds: { install: false },
        platformPolicy: { install: false },
        operator: { namespaces: ['stalls'], secrets: { ...secrets, role: { create: false } } },
      },
    })
    const wide = (objects: readonly Rendered[]) =>
      objects
        .filter(({ metadata }) => metadata.namespace === undefined)
        .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
    expect(wide(second).filter((each) => wide(first).includes(each))).toEqual([])
    expect(wide(second).length).toBeGreaterThan(5)
    const binding = named(second, 'ClusterRoleBinding')['other-latchkey-operator-secrets']
    expect(binding?.roleRef).toMatchObject({ name: 'latchkey-operator-secrets' })
  })

  test('chart roles: with rbac.scope namespaces, the operator has roles only in its namespaces', async () => {
    const objects = await render({
      preset: 'namespaced',
      values: { operator: { namespaces: ['shops', 'stalls'], secrets: { namespaces: ['shops'] } } },
    })
    const wide = objects.filter(({ metadata }) => metadata.namespace === undefined)
    expect(wide.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([])
    const secrets = objects.filter(
      ({ kind, rules = [] }) => kind === 'Role' && JSON.stringify(rules).includes('"secrets"'),
    )
    expect(secrets.map(({ metadata }) => metadata.namespace)).toEqual(['shops'])
    expect(environmentOf(objects, 'operator')['LATCHKEY_OPERATOR_NAMESPACES']).toBe('shops,stalls')
    const cleanup = podsOf(objects).find(({ owner }) => owner === 'Job latchkey-cleanup')
    expect(cleanup?.spec.containers[0]?.args).toEqual([
      'remove-finalizers',
      '--operator',
      'latchkey-operator',
      '--namespaces',
      'shops,stalls',
    ])
  })
})

describe('chart', () => {
  test('chart roles: the back office may only create token reviews and access reviews', async () => {
    const objects = await render()
    const bound = objects.filter(({ subjects = [] }) =>
      subjects.some(({ name, namespace }) => name === 'latchkey-backoffice' && namespace === 'latchkey'),
    )
    expect(bound.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
      'ClusterRoleBinding latchkey-backoffice',
    ])
    expect(bound[0]?.subjects).toHaveLength(1)
    expect(named(objects, 'ClusterRole')['latchkey-backoffice']?.rules).toEqual([
      { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
      { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
    ])
  })

  test('chart roles: the back office gets no ClusterRoleBinding if the chart may not create any', async () => {
    for (const values of [{ rbac: { create: false } }, { backoffice: { enabled: false } }]) {
      const objects = await render({ values })
      expect(Object.keys(named(objects, 'ClusterRole'))).not.toContain('latchkey-backoffice')
      expect(Object.keys(named(objects, 'ClusterRoleBinding'))).not.toContain('latchkey-backoffice')
    }
  })

  test('chart exposure: the back office gets an Ingress or HTTPRoute only from its own settings', async () => {
    const outside = (objects: readonly Rendered[]) =>
      objects.filter(({ kind }) => kind === 'Ingress' || kind === 'HTTPRoute')
    const publicOnly = await render({
      values: {
        ingress: { enabled: true, hosts: ['a.example.com'] },
        httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }] },
      },
    })
    const service = named(publicOnly, 'Service')['latchkey-backoffice']
    expect(service?.spec).toMatchObject({ type: 'ClusterIP', ports: [{ port: 8081, targetPort: 'http' }] })
    expect(JSON.stringify(outside(publicOnly))).not.toContain('latchkey-backoffice')
    const own = {
      ingress: { enabled: true, hosts: ['b.example.com'], tls: [{ secretName: 'b' }] },
      httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }], hostnames: ['b.example.com'] },
    }
    const opened = outside(await render({ values: { backoffice: own } }))
    expect(opened.map(({ kind, metadata }) => `${kind} ${metadata.name}`)).toEqual([
      'Ingress latchkey-backoffice',
      'HTTPRoute latchkey-backoffice',
    ])
    expect(JSON.stringify(opened)).not.toContain('latchkey-api')
  })

  test('dashboard roles: each role permits only the actions that its name describes', async () => {
    const roles = named(await render(), 'ClusterRole')
    const rights = (name: string) =>
      roles[`latchkey-${name}`]?.rules?.flatMap(({ resources, verbs }) =>
        (resources as string[]).map((resource) => `${String(verbs)} ${resource}`),
      )
    const support = ['get tenants', 'create tenants/replays', 'create tenants/simulations']
    expect(
      ['dashboard-viewer', 'dashboard-support', 'dashboard-admin', 'contract-service'].map(rights),
    ).toEqual([
      ['get tenants'],
      support,
      [...support, 'get tenants/payloads', 'update tenants/settings'],
      ['get tenants', 'create tenants/events', 'create tenants/usage'],
    ])
    for (const { metadata } of Object.values(roles).filter(({ metadata }) =>
      /-(dashboard|contract)-/.test(metadata.name),
    ))
      expect(JSON.stringify(metadata.labels)).not.toContain('aggregate-to')
  })
})

test('tenant roles: view, edit and admin grant no platform fields, and only admin may read payloads', async () => {
  const roles = Object.values(named(await render(), 'ClusterRole'))
  const resourcesOf = (to: string) =>
    roles
      .filter(({ metadata }) => metadata.labels?.[`rbac.authorization.k8s.io/aggregate-to-${to}`] === 'true')
      .flatMap(({ rules = [] }) => rules.flatMap(({ resources }) => resources as string[]))
  expect(resourcesOf('view')).toEqual(['tenants', 'tenants/status', 'providers', 'providers/status'])
  expect(resourcesOf('edit')).toEqual(['tenants', 'tenants/replays', 'tenants/simulations'])
  expect(resourcesOf('admin')).toEqual(['tenants/payloads', 'tenants/settings'])
})
