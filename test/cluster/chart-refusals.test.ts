import { beforeAll, describe, expect, test } from 'bun:test'
import { buildMsMax, buildTools, helms, leastValues, refusal } from './chart.ts'

beforeAll(buildTools, buildMsMax)

/** Back office on a public host, in every combination of Ingress and HTTPRoute. */
function publicHosts(): [string, object, string][] {
  const ways: Readonly<Record<string, (host: string) => object>> = {
    Ingress: (host) => ({ ingress: { enabled: true, hosts: [host] } }),
    route: (host) => ({
      httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }], hostnames: [host] },
    }),
  }
  return Object.entries(ways).flatMap(([ofPublic, open]) =>
    Object.entries(ways).flatMap(([ofBackoffice, own]) =>
      ['a.example.com', 'A.example.com', '*.example.com'].map((host): [string, object, string] => [
        `the backoffice on ${host} by ${ofBackoffice}, public by ${ofPublic}`,
        { ...open('a.example.com'), backoffice: own(host) },
        'give the backoffice one of its own',
      ]),
    ),
  )
}

const ours = { matchLabels: { namespace: 'latchkey' } }

describe.each(helms)('%s', (helm) => {
  test.each<[string, object, string]>([
    ['an unknown value', { api: { replica: 2 } }, 'replica'],
    ['an unknown group', { apis: {} }, 'apis'],
    ['a missing store', { redis: { existingSecret: '' } }, 'redis.existingSecret is missing'],
    [
      'a Secret and a URL for the same store',
      { redis: { existingSecret: 's', url: 'redis://h' } },
      'are both set',
    ],
    [
      'a Secret and a ConfigMap for the same CA',
      { database: { existingSecret: 's', tls: { ca: { existingSecret: 'a', existingConfigMap: 'b' } } } },
      'are both set',
    ],
    [
      'TLS settings with an unencrypted Redis URL',
      { redis: { existingSecret: '', url: 'redis://h', tls: { serverName: 'h' } } },
      'redis.tls contradicts redis.url',
    ],
    [
      'a migration that waits longer than its deadline',
      { migration: { waitSeconds: 600, deadlineSeconds: 659 } },
      'migration.deadlineSeconds is under 660',
    ],
    ['a missing key ring', { keyRing: { generate: false } }, 'keyRing.existingSecret is missing'],
    [
      'the reserved provider',
      { extraEnv: [{ name: 'LATCHKEY_GATEWAY_SANDBOX', value: 'true' }] },
      'extraEnv',
    ],
    ['a bind address', { extraEnv: [{ name: 'LATCHKEY_BIND_ADDRESS', value: '127.0.0.1' }] }, 'extraEnv'],
    ['a setting with a chart value', { api: { extraEnv: [{ name: 'LATCHKEY_LOG_LEVEL' }] } }, 'extraEnv'],
    [
      'external metrics without a selector',
      { forwarder: { autoscaling: { mode: 'hpa' } } },
      'hpa.selector is missing',
    ],
    ['KEDA without Prometheus', { forwarder: { autoscaling: { mode: 'keda' } } }, 'serverAddress is missing'],
    [
      'autoscaling without the backoffice, whose metrics it needs',
      {
        forwarder: { autoscaling: { mode: 'hpa', hpa: { selector: ours } } },
        backoffice: { enabled: false },
      },
      'needs backoffice.enabled',
    ],
    [
      'minReplicas over maxReplicas',
      { api: { autoscaling: { minReplicas: 5, maxReplicas: 2 } } },
      'minReplicas is over',
    ],
    ['fewer than one forwarder', { forwarder: { autoscaling: { minReplicas: 0 } } }, 'minReplicas'],
    [
      'two monitors',
      { metrics: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } } },
      'would count twice',
    ],
    ['namespaced roles without namespaces', { rbac: { scope: 'namespaces' } }, 'needs operator.namespaces'],
    ['an Ingress without hosts', { ingress: { enabled: true } }, 'ingress.hosts is missing'],
    ['an HTTPRoute without gateways', { httpRoute: { enabled: true } }, 'parentRefs is missing'],
    [
      'an Ingress of the backoffice without hosts',
      { backoffice: { ingress: { enabled: true } } },
      'backoffice.ingress.hosts is missing',
    ],
    [
      'an HTTPRoute of the backoffice without gateways',
      { backoffice: { httpRoute: { enabled: true } } },
      'backoffice.httpRoute.parentRefs is missing',
    ],
    [
      'an HTTPRoute of the backoffice without host names',
      { backoffice: { httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }] } } },
      'backoffice.httpRoute.hostnames is missing',
    ],
    ...publicHosts(),
    ['a malformed runbook URL', { metrics: { rules: { runbookUrl: 'runbooks' } } }, 'runbookUrl'],
  ])(`chart by ${helm}: refuses %s with a message that names the remedy`, async (_what, values, words) => {
    expect(await refusal({ ...leastValues, ...values }, helm)).toContain(words)
  })
})
