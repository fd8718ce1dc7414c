import { beforeAll, describe, expect, test } from 'bun:test'
import { buildMsMax, buildTools, helms, leastValues, refusal } from './chart.ts'

beforeAll(buildTools, buildMsMax)

/** The backoffice on a public host, however either is let out. */
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

describe.each(helms)('%s refuses', (helm) => {
  test.each<[string, object, string]>([
    ['an unknown value', { api: { replica: 2 } }, 'replica'],
    ['an unknown group', { apis: {} }, 'apis'],
    ['no store', { redis: { existingSecret: '' } }, 'redis.existingSecret is missing'],
    ['two places of a store', { redis: { existingSecret: 's', url: 'redis://h' } }, 'are both set'],
    [
      'two places of a CA',
      { database: { existingSecret: 's', tls: { ca: { existingSecret: 'a', existingConfigMap: 'b' } } } },
      'are both set',
    ],
    [
      'TLS of a Redis in plain text',
      { redis: { existingSecret: '', url: 'redis://h', tls: { serverName: 'h' } } },
      'redis.tls contradicts redis.url',
    ],
    [
      'a migration that waits longer than its deadline',
      { migration: { waitSeconds: 600, deadlineSeconds: 659 } },
      'migration.deadlineSeconds is under 660',
    ],
    ['no key ring', { keyRing: { generate: false } }, 'keyRing.existingSecret is missing'],
    [
      'the reserved provider',
      { extraEnv: [{ name: 'LATCHKEY_GATEWAY_SANDBOX', value: 'true' }] },
      'extraEnv',
    ],
    ['a bind address', { extraEnv: [{ name: 'LATCHKEY_BIND_ADDRESS', value: '127.0.0.1' }] }, 'extraEnv'],
    ['a setting beside its value', { api: { extraEnv: [{ name: 'LATCHKEY_LOG_LEVEL' }] } }, 'extraEnv'],
    [
      'figures of everybody, added up',
      { forwarder: { autoscaling: { mode: 'hpa' } } },
      'hpa.selector is missing',
    ],
    ['KEDA without Prometheus', { forwarder: { autoscaling: { mode: 'keda' } } }, 'serverAddress is missing'],
    [
      'figures from what they scale',
      {
        forwarder: { autoscaling: { mode: 'hpa', hpa: { selector: ours } } },
        backoffice: { enabled: false },
      },
      'needs backoffice.enabled',
    ],
    ['fewest over most', { api: { autoscaling: { minReplicas: 5, maxReplicas: 2 } } }, 'minReplicas is over'],
    ['no forwarder', { forwarder: { autoscaling: { minReplicas: 0 } } }, 'minReplicas'],
    [
      'two monitors',
      { metrics: { podMonitor: { enabled: true }, serviceMonitor: { enabled: true } } },
      'would count twice',
    ],
    ['roles of no namespace', { rbac: { scope: 'namespaces' } }, 'needs operator.namespaces'],
    ['an Ingress of no host', { ingress: { enabled: true } }, 'ingress.hosts is missing'],
    ['a route of no gateway', { httpRoute: { enabled: true } }, 'parentRefs is missing'],
    [
      'an Ingress of no host for the backoffice',
      { backoffice: { ingress: { enabled: true } } },
      'backoffice.ingress.hosts is missing',
    ],
    [
      'a route of no gateway for the backoffice',
      { backoffice: { httpRoute: { enabled: true } } },
      'backoffice.httpRoute.parentRefs is missing',
    ],
    [
      'the backoffice on every host of a gateway',
      { backoffice: { httpRoute: { enabled: true, parentRefs: [{ name: 'gateway' }] } } },
      'backoffice.httpRoute.hostnames is missing',
    ],
    ...publicHosts(),
    ['runbooks that are nowhere', { metrics: { rules: { runbookUrl: 'runbooks' } } }, 'runbookUrl'],
  ])('%s, and says what to do', async (_what, values, words) => {
    expect(await refusal({ ...leastValues, ...values }, helm)).toContain(words)
  })
})
