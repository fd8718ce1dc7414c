import {
  choice,
  count,
  flag,
  type Group,
  group,
  type Keys,
  kubeList,
  kubeObject,
  objectName,
  pairs,
  text,
} from './kinds.ts'

/** What differs between processes. */
export interface Workload {
  readonly doc: string
  readonly replicas: number
  readonly cpu: string
  readonly memory: string
  readonly memoryMax: string
  readonly shutdownGraceSeconds: number
  /** Keys of this process alone, before the common ones. */
  readonly own: Keys
}

/** The values of a process that is deployed. */
export function workload(of: Workload): Group {
  return group(of.doc, {
    replicas: count('How many pods; not used where an autoscaler decides.', of.replicas, [0, 1000]),
    ...of.own,
    shutdownGraceSeconds: count(
      'Seconds from SIGTERM until work under way is dropped; the pod gets 5 more.',
      of.shutdownGraceSeconds,
      [1, 600],
    ),
    resources: resources(
      of,
      'The runtime collects garbage by the limit of memory; without one, by what the node has.',
    ),
    podDisruptionBudget: group('How many pods may be away when nodes are drained.', {
      enabled: flag('Whether there is one.', true),
      maxUnavailable: {
        doc: 'A number, or a share such as 25%.',
        schema: { type: ['integer', 'string'], pattern: '^[0-9]+%$', minimum: 0 },
        default: 1,
      },
    }),
    strategy: kubeObject('How pods are replaced: by default new ones come before old ones go.', {
      type: 'RollingUpdate',
      rollingUpdate: { maxSurge: '25%', maxUnavailable: 0 },
    }),
    revisionHistoryLimit: count('How many earlier ReplicaSets are kept.', 5, [0, 100]),
    serviceAccount: serviceAccount(),
    ...podKeys('of this process, beside those of all'),
  })
}

/** Requests, and a bound of memory alone: a bound of processor time would make calls wait on an idle node. */
export function resources(
  { cpu, memory, memoryMax }: Pick<Workload, 'cpu' | 'memory' | 'memoryMax'>,
  more = '',
) {
  return kubeObject(`What a pod asks for, and the most it gets. ${more}`.trim(), {
    requests: { cpu, memory, 'ephemeral-storage': '16Mi' },
    limits: { memory: memoryMax, 'ephemeral-storage': '512Mi' },
  })
}

/** The service account of a process. */
export function serviceAccount(): Group {
  return group('The service account of its pods.', {
    create: flag('Whether the chart makes it.', true),
    name: objectName('Its name; empty: made of the release’s and the process’.'),
    annotations: pairs('Such as those by which a cloud gives rights to it.'),
  })
}

/** What may be said of pods, of all or of one process; `containers` is what more there is to say of further ones. */
export function podKeys(whose: string, containers = ''): Keys {
  return {
    podAnnotations: pairs(`Annotations of pods ${whose}.`),
    podLabels: pairs(`Labels of pods ${whose}.`),
    priorityClassName: objectName(`Priority class ${whose.replace(', beside those of all', '')}.`),
    nodeSelector: pairs(`Labels of nodes ${whose}.`),
    tolerations: kubeList(`Tolerations ${whose}.`),
    affinity: kubeObject(`Affinity ${whose.replace(', beside those of all', ', in place of that of all')}.`),
    extraEnv: kubeList(
      `Further environment variables ${whose}. Latchkey’s own settings have values of their own, above.`,
    ),
    extraEnvFrom: kubeList(`Sources of further environment variables ${whose}.`),
    extraVolumes: kubeList(`Further volumes ${whose}.`),
    extraVolumeMounts: kubeList(`Further mounts ${whose}.`),
    extraInitContainers: kubeList(`Further init containers ${whose}.`),
    extraContainers: kubeList(`Further containers ${whose}.${containers}`),
  }
}

/** A Service of a process. */
export function service(port: number): Group {
  return group('Its Service.', {
    type: choice('How it is reached.', 'ClusterIP', 'NodePort', 'LoadBalancer'),
    port: count('Its port.', port, [1, 65535]),
    annotations: pairs('Annotations of the Service.'),
    labels: pairs('Labels of the Service.'),
    nodePort: {
      doc: 'The port of nodes, of a Service that has one; null: any.',
      schema: { type: ['integer', 'null'], minimum: 1, maximum: 65535 },
      default: null,
    },
    loadBalancerClass: text('What makes the load balancer, of a Service that has one.'),
    loadBalancerSourceRanges: {
      doc: 'Networks that a load balancer lets in.',
      schema: { type: 'array', items: { type: 'string' } },
      default: [],
    },
    externalTrafficPolicy: choice(
      'Local keeps the caller’s address, of a Service that is reached from outside.',
      'Cluster',
      'Local',
    ),
    trafficDistribution: text('Where calls go first, such as PreferClose.'),
  })
}

/** An Ingress. */
export function ingress(what: string): Group {
  return group(`An Ingress for ${what}.`, {
    enabled: flag('Whether there is one.', false),
    className: text('Its class; empty: the cluster’s default.'),
    annotations: pairs('Annotations of the Ingress.'),
    labels: pairs('Labels of the Ingress.'),
    hosts: {
      doc: 'Names of hosts.',
      schema: { type: 'array', items: { type: 'string', minLength: 1 } },
      default: [],
    },
    tls: kubeList('Certificates: entries of hosts and secretName.'),
  })
}

/** A route of the Gateway API. */
export function httpRoute(what: string): Group {
  return group(`An HTTPRoute of the Gateway API for ${what}.`, {
    enabled: flag('Whether there is one.', false),
    annotations: pairs('Annotations of the route.'),
    labels: pairs('Labels of the route.'),
    parentRefs: kubeList('The gateways.'),
    hostnames: {
      doc: 'Names of hosts.',
      schema: { type: 'array', items: { type: 'string', minLength: 1 } },
      default: [],
    },
    filters: kubeList('Filters of its one rule.'),
  })
}
