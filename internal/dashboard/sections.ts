/** The parts of the dashboard, in the order of the navigation. */
export const sections = [
  { name: 'overview', label: 'Overview', path: '/', group: 'Now' },
  { name: 'events', label: 'Events', path: '/events', group: 'Webhooks' },
  { name: 'refused', label: 'Refused calls', path: '/refused', group: 'Webhooks' },
  { name: 'replays', label: 'Replays', path: '/replays', group: 'Webhooks' },
  { name: 'simulations', label: 'Simulations', path: '/simulations', group: 'Webhooks' },
  { name: 'executions', label: 'Executions', path: '/executions', group: 'Records' },
  { name: 'tenants', label: 'Tenants', path: '/tenants', group: 'Platform' },
  { name: 'usage', label: 'Usage', path: '/usage', group: 'Platform' },
  { name: 'settings', label: 'Settings', path: '/settings', group: 'Platform' },
  { name: 'audit', label: 'Audit log', path: '/audit', group: 'Platform' },
] as const

/** The name of a part. */
export type SectionName = (typeof sections)[number]['name']
