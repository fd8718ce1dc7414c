import type { JsonObject } from '../../../normalize.ts'

/** Example payload of an event, without the members that its scope adds. */
export interface Sample {
  /** Where the event happens: adds `repository` and `organization`, or one of them, or `installation`. `sender` is always added. */
  readonly scope: 'repository' | 'organization' | 'installation' | 'sender'
  /** Members of every payload of the event. An event with actions begins with `action`, whose value its condition writes. */
  readonly body: JsonObject
  /** Members that only the payloads of a normalized type have, or have with other values. */
  readonly byType?: Readonly<Record<string, JsonObject>>
}

/** Address of the vendor's API for the example repository. */
export const api = 'https://api.github.com/repos/acme-example/order-service'
/** Address of the example repository's pages. */
export const web = 'https://github.com/acme-example/order-service'
/** Latest commit of the example branch. */
export const headSha = 'a9c3f1de7b0248e6951c04d2b87f6a35e1097bc4'
/** Latest commit of the example repository's default branch. */
export const baseSha = '5be07a1c94d3826f0e71b95a3c48d2f6e08b1749'

/** Returns an account as events contain it. */
export function user(login: string, id: number, type: 'User' | 'Bot' | 'Organization' = 'User'): JsonObject {
  return { login, id, type, html_url: `https://github.com/${login}` }
}

/** Author of the examples. */
export const developer = user('acme-developer', 41_200_311)
/** Second person of the examples, such as a reviewer. */
export const reviewer = user('acme-reviewer', 41_200_327)
/** Organization of the examples. */
export const organization: JsonObject = {
  login: 'acme-example',
  id: 58_310_442,
  node_id: 'O_kgDOA3m_Kg',
  url: 'https://api.github.com/orgs/acme-example',
  description: 'Examples of the Acme company',
}
/** Short form of a repository, as lists contain it. */
export const repositoryReference: JsonObject = {
  id: 612_004_881,
  node_id: 'R_kgDOJHpZUQ',
  name: 'order-service',
  full_name: 'acme-example/order-service',
  private: true,
}
/** Repository of the examples. */
export const repository: JsonObject = {
  ...repositoryReference,
  owner: user('acme-example', 58_310_442, 'Organization'),
  html_url: web,
  url: api,
  description: 'Accepts and tracks orders',
  fork: false,
  archived: false,
  visibility: 'private',
  default_branch: 'main',
  language: 'TypeScript',
  topics: ['orders'],
  open_issues_count: 7,
  stargazers_count: 12,
  forks_count: 3,
  created_at: '2025-02-17T10:04:55Z',
  updated_at: '2026-11-10T08:31:20Z',
  pushed_at: '2026-11-10T08:31:12Z',
  clone_url: `${web}.git`,
}
/** Label of the examples. */
export const label: JsonObject = {
  id: 5_230_118_772,
  node_id: 'LA_kwDOJHpZUc8AAAABN7zktA',
  url: `${api}/labels/bug`,
  name: 'bug',
  color: 'd73a4a',
  default: true,
  description: 'Something is not working',
}
/** Milestone of the examples. */
export const milestone: JsonObject = {
  url: `${api}/milestones/4`,
  html_url: `${web}/milestone/4`,
  id: 10_443_902,
  number: 4,
  node_id: 'MI_kwDOJHpZUc4An1v-',
  title: '2.4',
  description: 'Returns and exchanges',
  state: 'open',
  creator: developer,
  open_issues: 5,
  closed_issues: 11,
  due_on: '2026-12-15T08:00:00Z',
  created_at: '2026-10-01T07:22:10Z',
  updated_at: '2026-11-09T16:40:02Z',
  closed_at: null,
}
/** Installation of an app, as events for apps contain it. */
export const installation: JsonObject = {
  id: 47_118_920,
  account: user('acme-example', 58_310_442, 'Organization'),
  app_id: 803_115,
  app_slug: 'acme-deployer',
  repository_selection: 'selected',
  target_id: 58_310_442,
  target_type: 'Organization',
  permissions: { contents: 'read', metadata: 'read', deployments: 'write' },
  events: ['deployment', 'push'],
  html_url: 'https://github.com/settings/installations/47118920',
  created_at: '2026-11-10T08:20:00Z',
  updated_at: '2026-11-10T08:20:00Z',
  single_file_name: null,
  suspended_at: null,
  suspended_by: null,
}
/** Team of the examples. */
export const team: JsonObject = {
  id: 7_904_113,
  node_id: 'T_kwDOA3m_Ks4AeJwR',
  name: 'Order team',
  slug: 'order-team',
  description: 'Owns the order service',
  privacy: 'closed',
  permission: 'push',
  parent: null,
  notification_setting: 'notifications_enabled',
  url: 'https://api.github.com/teams/7904113',
  html_url: 'https://github.com/orgs/acme-example/teams/order-team',
}
/** Commit of the examples, as runs of workflows contain it. */
export const headCommit: JsonObject = {
  id: headSha,
  tree_id: '0d4c7e19ba5283f6017ce9485d2ab3f1096e7c58',
  message: 'Round totals half to even',
  timestamp: '2026-11-10T08:31:02Z',
  author: { name: 'Acme Developer', email: 'developer@example.com' },
  committer: { name: 'Acme Developer', email: 'developer@example.com' },
}
