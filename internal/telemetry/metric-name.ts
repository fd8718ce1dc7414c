/** The rooms that may own a metric; a name's second word. */
const rooms = [
  'config',
  'telemetry',
  'process',
  'storage',
  'kube',
  'http',
  'tenants',
  'access',
  'settings',
  'usage',
  'figures',
  'executions',
  'records',
  'webhooks',
  'deliveries',
  'simulations',
  'backoffice',
  'dashboard',
  'dev',
]
const units = {
  counter: ['total'],
  gauge: ['seconds', 'bytes', 'ratio', 'count', 'version'],
  histogram: ['seconds', 'bytes', 'count', 'ratio'],
}
/** Labels that Prometheus gives to what it scrapes, by its operator's monitors: ours of that name would be renamed. */
const targetLabels = new Set([
  'job',
  'instance',
  'namespace',
  'pod',
  'container',
  'service',
  'endpoint',
  'node',
])
/** Names that others gave: dashboards and alerts for controller-runtime look for them as they are. */
const adoptedNames = /^(workqueue|controller_runtime|leader_election|rest_client)_[a-z0-9_]*[a-z0-9]$/
/** Labels that are never a closed set, or that a secret would hide in. */
const openLabels = new Set([
  'tenant_id',
  'key',
  'scope',
  'request_id',
  'path',
  'url',
  'error',
  'message',
  'le',
])

/** Holds names to `latchkey_<room>_<noun>_<unit>`, or controller-runtime's own, and labels to closed sets. @throws RangeError */
export function checkMetric(name: string, type: keyof typeof units, labels: readonly string[]): void {
  for (const label of labels) checkLabel(name, label)
  if (adoptedNames.test(name)) return
  const [, room = '', unit = ''] = /^latchkey_([a-z]+)_[a-z0-9_]*[a-z0-9]_([a-z]+)$/.exec(name) ?? []
  if (!rooms.includes(room)) throw new RangeError(`${name}: expected latchkey_<room>_<noun>_<unit>`)
  if (!units[type].includes(unit))
    throw new RangeError(`${name}: a ${type} ends in one of _${units[type].join(', _')}`)
}

function checkLabel(name: string, label: string): void {
  if (!/^[a-z][a-z0-9_]{0,31}$/.test(label) || openLabels.has(label) || targetLabels.has(label))
    throw new RangeError(`${name}: ${label} is no label of a closed set`)
}
