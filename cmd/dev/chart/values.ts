import {
  choice,
  count,
  flag,
  group,
  type Keys,
  kubeList,
  kubeObject,
  objectName,
  pairs,
  ports,
  secretKey,
  share,
  text,
  texts,
} from './kinds.ts'
import { seen } from './metrics-values.ts'
import { waiting } from './rules/waiting.ts'
import { stores } from './store-values.ts'
import { httpRoute, ingress, podKeys, resources, service, serviceAccount, workload } from './workload.ts'

const cidr = '[0-9A-Fa-f:.]+(/[0-9]{1,3})?'
const namespaceName = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?'
const httpUrl = 'https?://.+|'

const naming: Keys = {
  nameOverride: objectName('In place of the chart’s name in labels and names.'),
  fullnameOverride: objectName('In place of the release’s and the chart’s name in names.'),
  enabled: {
    doc: 'For charts that have this one as a dependency with a condition; not read here.',
    schema: { type: 'boolean' },
    default: true,
    isHidden: true,
  },
  global: {
    ...group('Shared with the charts around this one.', {
      imageRegistry: text('In place of image.registry.'),
      imagePullSecrets: kubeList('Secrets of registries, beside imagePullSecrets.'),
    }),
    isOpen: true,
  },
  image: group('The one image of all processes.', {
    registry: text('Its registry; empty: none before the repository.', 'ghcr.io'),
    repository: text('Its repository.', 'latchkey/latchkey'),
    tag: text('Its tag; empty: the version of the application.'),
    digest: text('Its digest, which then counts in place of the tag.', '', 'sha256:[0-9a-f]{64}|'),
    pullPolicy: choice('When a node gets it.', 'IfNotPresent', 'Always', 'Never'),
  }),
  imagePullSecrets: kubeList('Secrets of its registry, as objects with a name.'),
  commonLabels: pairs('Labels of everything.'),
  commonAnnotations: pairs('Annotations of everything.'),
}

const config = group('Settings of the processes.', {
  publicUrl: text('What stands before /v1/t/… in the URLs that a Tenant’s status hands out.', '', httpUrl),
  logLevel: choice('Least level that is logged.', 'info', 'debug', 'warn', 'error'),
  recordTtlSecondsMax: count('Longest life that a record may ask for.', 2_592_000, [1, 315_360_000]),
  recordBodyBytesMax: count('Largest body of a record, as JSON text.', 262_144, [1, 16_777_216]),
  signatureMaxAgeSeconds: count(
    'How far a webhook signature’s time may lie from ours, in both directions.',
    300,
    [1, 86_400],
  ),
  redisSpoolDurable: flag(
    'Vouches that Redis keeps every acknowledged write, where CONFIG GET appendfsync is forbidden.',
    false,
  ),
  trustedProxies: texts('Networks of proxies whose X-Forwarded-For is believed.', [], cidr),
  callbackCidrsMax: texts(
    'Networks beyond public ones that a tenant may list for its callback, such as those of pods and Services.',
    [],
    cidr,
  ),
  callbackPorts: ports(
    'Ports that callbacks in those networks may have beside 80, 443, 8080 and 8443, so that no tenant can talk to databases and kubelets there.',
  ),
  egressProxy: text('Proxy of calls to callbacks and for certificates.', '', httpUrl),
  traces: group('Traces, by OTLP over HTTP.', {
    endpoint: text('Who receives them; empty: none are made.', '', httpUrl),
    headersSecret: objectName('A Secret that holds headers for it, name=value, comma separated.'),
    headersKey: secretKey('The key of that Secret.', 'headers'),
    sampleShare: share('Share of traces begun here that are kept.', 1),
  }),
})

const triggers: Keys = {
  depth: count('Due deliveries for each pod.', 500, [1, 1_000_000]),
  ageSeconds: count('Seconds that the oldest due delivery may wait, for each pod.', 30, [1, 86_400]),
}

const processes: Keys = {
  api: workload({
    ...{ doc: 'The public routes: records and webhooks.', replicas: 2, shutdownGraceSeconds: 25 },
    ...{ cpu: '250m', memory: '192Mi', memoryMax: '512Mi' },
    own: {
      autoscaling: group('A HorizontalPodAutoscaler.', {
        enabled: flag('Whether there is one.', false),
        minReplicas: count('Fewest pods.', 2, [1, 1000]),
        maxReplicas: count('Most pods.', 10, [1, 1000]),
        targetCpuPercent: count(
          'Processor time in use, of what is asked for, that it aims at.',
          70,
          [1, 1000],
        ),
        behavior: kubeObject('How fast it may scale; empty: Kubernetes’ own.'),
      }),
      preStopSeconds: count(
        'Seconds between leaving the Service and SIGTERM, in which load balancers learn of it.',
        5,
        [0, 60],
      ),
      shutdownDelaySeconds: count('Seconds after SIGTERM in which new calls are still taken.', 5, [0, 60]),
      service: service(80),
    },
  }),
  forwarder: workload({
    ...{ doc: 'Brings events to callbacks.', replicas: 2, shutdownGraceSeconds: 40 },
    ...{ cpu: '100m', memory: '128Mi', memoryMax: '384Mi' },
    own: {
      autoscaling: group(
        'By what waits: the figures come from the backoffice, and from the API for what is spooled, in latchkey_deliveries_… and latchkey_webhooks_spool_….',
        {
          mode: choice(
            'What decides; keda: a ScaledObject on Prometheus; hpa: a HorizontalPodAutoscaler on external metrics, from whatever adapter serves them.',
            'none',
            'keda',
            'hpa',
          ),
          minReplicas: count(
            'Fewest pods. One at least: forwarders also work on replays, keep partitions ahead and end what is retained.',
            1,
            [1, 1000],
          ),
          maxReplicas: count('Most pods.', 10, [1, 1000]),
          targets: group('What is aimed at; the one that asks for more pods counts.', triggers),
          behavior: kubeObject('How fast it may scale; empty: Kubernetes’ own.'),
          keda: group('Of mode keda.', {
            serverAddress: text(
              'Where Prometheus is, such as http://prometheus.monitoring:9090.',
              '',
              httpUrl,
            ),
            depthQuery: text('Gives one number; empty: what waits here, in Postgres and in the spool.'),
            ageQuery: text('Gives one number, in seconds; empty: the age of what waits longest here.'),
            pollingSeconds: count('Seconds between two looks.', 15, [1, 3600]),
            fallbackReplicas: count(
              'Pods while Prometheus cannot be asked, unless there are more.',
              2,
              [1, 1000],
            ),
            authenticationRef: kubeObject('How KEDA signs in to Prometheus: a TriggerAuthentication.'),
            metadata: pairs('Further metadata of its triggers, such as authModes.'),
          }),
          hpa: group('Of mode hpa, which adds up all series that it finds: there must be one of each.', {
            depthMetric: text('The external metric of what waits; metrics.rules record it.', waiting.count),
            ageMetric: text(
              'The external metric of the age of what waits longest; metrics.rules record it.',
              waiting.ageSeconds,
            ),
            selector: kubeObject(
              'Which of their series, such as matchLabels: {namespace: latchkey}. Has to be set.',
            ),
          }),
        },
      ),
    },
  }),
  operator: workload({
    ...{ doc: 'Follows Tenants: one leads, the other takes over.', replicas: 2, shutdownGraceSeconds: 25 },
    ...{ cpu: '50m', memory: '128Mi', memoryMax: '384Mi' },
    own: {
      enabled: flag('Whether there is one: one for each cluster, or for each set of namespaces.', true),
      namespaces: texts('Whose Tenants it follows; empty: all.', [], namespaceName),
      secrets: group(
        'Which Secrets it may use; a namespace that is not listed is granted by the command that its Tenants show. Without clusterWide there is a watch for each namespace, for at most some 3 000.',
        {
          clusterWide: flag('All of the cluster, by one watch.', false),
          namespaces: texts('Those of these namespaces.', [], namespaceName),
          role: group('The ClusterRole latchkey-operator-secrets, which that command binds.', {
            create: flag('Whether the chart makes it: one release in each cluster does.', true),
          }),
        },
      ),
    },
  }),
  backoffice: workload({
    ...{
      doc: 'The dashboard and the internal contract, and how much waits in metrics. Reached inside the cluster alone, unless its own ingress or httpRoute is on.',
      replicas: 2,
      shutdownGraceSeconds: 25,
    },
    ...{ cpu: '50m', memory: '128Mi', memoryMax: '384Mi' },
    own: {
      enabled: flag('Whether there is one: what scales forwarders needs it.', true),
      preStopSeconds: count(
        'Seconds between leaving the Service and SIGTERM, in which load balancers learn of it.',
        5,
        [0, 60],
      ),
      service: service(8081),
      ingress: ingress('the dashboard and the internal contract, with a host of their own'),
      httpRoute: httpRoute('the dashboard and the internal contract, with a host of their own'),
    },
  }),
  migration: group(
    'The Job that brings the database’s schema up to date: before an upgrade, and beside the pods at first.',
    {
      enabled: flag('Whether there is one; without, run `latchkey migrate` yourself.', true),
      existingSecret: objectName(
        'A Secret with the URL of the role that owns the schema; empty: that of database. The role of database has to be a member of it, and to work as it, since pods make and drop partitions: see README, Schema.',
      ),
      key: secretKey('The key of that Secret.', 'url'),
      clientCertificate: group('The client certificate of that role, where Postgres asks for one.', {
        existingSecret: objectName(
          'A Secret of type kubernetes.io/tls; empty: that of database.tls.clientCertificate.',
        ),
      }),
      waitSeconds: count(
        'Seconds in which it waits, in one pod, for a Postgres that it cannot use yet. Before an upgrade 30 at most: it is there then.',
        600,
        [0, 86_400],
      ),
      deadlineSeconds: count(
        'Seconds that it has in all; at least 60 more than waitSeconds.',
        900,
        [10, 86_400],
      ),
      retries: count('How often it is tried again.', 10, [0, 100]),
      resources: resources({ cpu: '50m', memory: '128Mi', memoryMax: '256Mi' }),
      serviceAccount: serviceAccount(),
      ...podKeys(
        'of this Job, beside those of all',
        ' Each has to end by itself, else the Job never does; what serves beside it goes into extraInitContainers, with restartPolicy Always.',
      ),
    },
  ),
}

const routes: Keys = {
  ingress: ingress('the public routes, /v1, and nothing else'),
  httpRoute: httpRoute('the public routes, /v1, and nothing else'),
}

const rights: Keys = {
  crds: group('The definition of Tenants, which stays when the release goes, with all Tenants.', {
    install: flag('Whether the chart brings it.', true),
  }),
  platformPolicy: group(
    'The admission policy by which only the platform sets limits, rollout, retention and record rules.',
    {
      install: flag('Whether the chart brings it: one for each cluster.', true),
    },
  ),
  rbac: group('Roles of the cluster.', {
    create: flag('Whether the chart makes those of its processes.', true),
    scope: choice(
      'Where the operator’s roles are; namespaces: in operator.namespaces alone, for who may make none of the cluster’s. Such a namespace may hang in deletion while it has Tenants.',
      'cluster',
      'namespaces',
    ),
    aggregate: flag('Whether Tenants are added to the cluster’s view, edit and admin roles.', true),
    dashboardRoles: flag(
      'Whether there are roles to be bound: dashboard-viewer, -support and -admin to people, contract-service to services that hand in events and usage.',
      true,
    ),
  }),
  cleanup: group(
    'Before the release goes, a Job ends the operator and takes our finalizers from Tenants, so that no namespace hangs. Data stays.',
    {
      enabled: flag('Whether there is one.', true),
      deadlineSeconds: count('Seconds that it has in all.', 300, [10, 86_400]),
      resources: resources({ cpu: '50m', memory: '96Mi', memoryMax: '256Mi' }),
    },
  ),
}

const anywhere = [
  {
    to: [
      { ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.0.0/16'] } },
      { ipBlock: { cidr: '::/0', except: ['fe80::/10'] } },
    ],
  },
]

const overHttps = anywhere.map((rule) => ({ ...rule, ports: [{ port: 443, protocol: 'TCP' }] }))

const network: Keys = {
  networkPolicy: group(
    'NetworkPolicies. Each list holds rules as Kubernetes has them; an empty ingress list lets everybody in.',
    {
      enabled: flag('Whether there are any.', false),
      apiFrom: kubeList('Who may call the public port: peers.'),
      backofficeFrom: kubeList('Who may call the dashboard and the internal contract: peers.'),
      metricsFrom: kubeList('Who may call the ops port: peers.'),
      egress: group('What may be called. Names may always be looked up.', {
        enabled: flag('Whether it is bounded.', false),
        stores: kubeList('Rules for Postgres and Redis, of all.'),
        apiServer: kubeList(
          'Rules for the API server, of the operator, the backoffice and the Job that cleans up.',
        ),
        callbacks: kubeList(
          'Rules for callbacks, of forwarders and of the backoffice’s test events.',
          anywhere,
        ),
        certificates: kubeList(
          'Rules for the wallet’s certificates, of the API. With config.egressProxy, that proxy in place of these.',
          overHttps,
        ),
        more: kubeList('Rules of all, such as for traces.'),
      }),
    },
  ),
}

const pods: Keys = {
  podSecurityContext: kubeObject('Security of pods: the restricted standard.', {
    runAsNonRoot: true,
    runAsUser: 65532,
    runAsGroup: 65532,
    seccompProfile: { type: 'RuntimeDefault' },
  }),
  containerSecurityContext: kubeObject('Security of our containers: the restricted standard.', {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  }),
  topologySpreadConstraints: kubeList(
    'How pods of a process are spread, without labelSelector, which is theirs.',
    [
      { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' },
      { maxSkew: 1, topologyKey: 'topology.kubernetes.io/zone', whenUnsatisfiable: 'ScheduleAnyway' },
    ],
  ),
  ...podKeys(
    'of all processes',
    ' The migration gets its own alone: for what it needs too, take extraInitContainers with restartPolicy Always, which end with it.',
  ),
}

/** All values of the chart, in the order of values.yaml. */
export const chartValues: Keys = {
  ...naming,
  ...stores,
  config,
  ...processes,
  ...routes,
  ...rights,
  ...network,
  ...seen,
  ...pods,
  tests: group('What `helm test` runs.', { enabled: flag('Whether there is anything.', true) }),
  extraObjects: {
    doc: 'Further objects, as YAML or as texts that are templates.',
    schema: { type: 'array', items: { type: ['object', 'string'] } },
    default: [],
  },
}
