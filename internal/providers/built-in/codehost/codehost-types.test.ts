import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import type { operations } from '@octokit/openapi-webhooks-types'
import { type JsonObject } from '#internal/base/index.ts'
import type { CatalogueCase } from '../../catalogue.ts'

import { eventTables } from '../tables.ts'

const codehostTypes = eventTables.codehost

/**
 * Events and actions that are deliberately left to `codehost.<event>.<action>`: projects (classic), which the vendor has removed in favour
 * of `projects_v2` (https://github.blog/changelog/2024-05-23-sunset-notice-projects-classic/, read 2026-11).
 */
const leftOut: readonly (keyof operations)[] = [
  ...([
    'project/closed',
    'project/created',
    'project/deleted',
    'project/edited',
    'project/reopened',
  ] as const),
  ...(['project-card/converted', 'project-card/created', 'project-card/deleted'] as const),
  ...(['project-card/edited', 'project-card/moved', 'project-column/created'] as const),
  ...(['project-column/deleted', 'project-column/edited', 'project-column/moved'] as const),
]

interface Pair {
  readonly operation: string
  readonly event: string
  readonly action: string | undefined
}

/** Every event and action of the vendor's package, which names an operation `<event>/<action>` with hyphens. */
function vendorPairs(): readonly Pair[] {
  const file = Bun.resolveSync('@octokit/openapi-webhooks-types/types.d.ts', import.meta.dir)
  const names = readFileSync(file, 'utf8').matchAll(/^ {4}post: operations\["([^"]+)"\];$/gm)
  return [...names].map(([, operation = '']) => {
    const [event = '', action] = operation.replaceAll('-', '_').split('/')
    return { operation, event, action }
  })
}

const pairs = vendorPairs()
const actionsOf = ({ conditions }: CatalogueCase) =>
  conditions.flatMap((one) => (one.path === 'action' && 'values' in one ? one.values : []))

describe('GitHub’s list of events', () => {
  test('codehost: every event and action in the table exists in GitHub’s list', () => {
    const unknown = codehostTypes.cases.flatMap((one) => {
      const actions = actionsOf(one)
      const known = pairs.filter(({ event }) => event === one.rawType)
      const missing = actions.filter((each) => !known.some(({ action }) => action === each))
      return known.length === 0 || missing.length > 0 ? [{ event: one.rawType, missing }] : []
    })
    expect(unknown).toEqual([])
  })

  test('codehost: every event and action of GitHub’s list is in the table or deliberately left out', () => {
    const isListed = ({ event, action }: Pair) =>
      codehostTypes.cases.some((one) => {
        const actions = actionsOf(one)
        return one.rawType === event && (actions.length === 0 || actions.some((each) => each === action))
      })
    const missing = pairs.filter((pair) => !isListed(pair)).map(({ operation }) => operation)
    expect(missing.sort()).toEqual([...leftOut].sort())
    expect(pairs.length - missing.length).toBeGreaterThanOrEqual(250)
  })

  test('codehost: an event that has actions is listed by action only', () => {
    const withActions = new Set(pairs.flatMap(({ event, action }) => (action === undefined ? [] : [event])))
    const wrong = codehostTypes.cases.filter(
      (one) => withActions.has(one.rawType) !== actionsOf(one).length > 0,
    )
    // Allows `repository_dispatch` without a list of actions, since its sender can choose any text as the action.
    expect(new Set(wrong.map(({ rawType }) => rawType))).toEqual(new Set(['repository_dispatch']))
  })
})

test('codehost: every type belongs to one GitHub event, so that two events about the same fact have different types', () => {
  const events = Map.groupBy(codehostTypes.cases, ({ type }) => type)
  expect([...events].filter(([, cases]) => cases.length > 1)).toEqual([])
})

type Step = readonly [event: string, body: JsonObject, type: string]
const run = (action: string, conclusion: string | null = null) => ({
  action,
  workflow_run: { conclusion },
  workflow_job: { conclusion },
  check_suite: { conclusion },
  check_run: { status: conclusion === null ? 'queued' : 'completed', conclusion },
})
const ciRun = (conclusion: string, verb: string): readonly Step[] => [
  ['check_suite', run('requested'), 'check_suite.requested'],
  ['workflow_run', run('requested'), 'build.queued'],
  ['workflow_job', run('queued'), 'build_job.queued'],
  ['check_run', run('created'), 'check.queued'],
  ['workflow_run', run('in_progress'), 'build.started'],
  ['workflow_job', run('in_progress'), 'build_job.started'],
  ['status', { state: 'pending' }, 'commit_status.pending'],
  ['workflow_job', run('completed', conclusion), `build_job.${verb}`],
  ['check_run', run('completed', conclusion), `check.${verb}`],
  ['status', { state: 'success' }, 'commit_status.succeeded'],
  ['workflow_run', run('completed', conclusion), `build.${verb}`],
  ['check_suite', run('completed', conclusion), `check_suite.${verb}`],
]
const check = (action: string, status: string) => ({ action, check_run: { status, conclusion: 'success' } })
const pull = (action: string, merged = false) => ({ action, pull_request: { merged } })
const review = (action: string, state: string) => ({ action, review: { state } })
const onPull = (action: string) => ({ action, issue: { pull_request: { url: 'x' } } })
const status = (state: string) => ({ action: 'created', deployment_status: { state } })

const sequences: readonly (readonly [name: string, once: string, steps: readonly Step[]])[] = [
  ['a successful CI run', 'build.succeeded', ciRun('success', 'succeeded')],
  ['a failed CI run', 'build.failed', ciRun('failure', 'failed')],
  ['a CI run that times out', 'build.failed', ciRun('timed_out', 'failed')],
  ['a cancelled CI run', 'build.cancelled', ciRun('cancelled', 'cancelled')],
  ['a skipped CI run', 'build.skipped', ciRun('skipped', 'skipped')],
  ['a CI run with an unknown conclusion', 'build.completed', ciRun('something_new', 'completed')],
  [
    'a check that an app creates with its result',
    'check.succeeded',
    [
      ['check_run', check('created', 'completed'), 'check.created'],
      ['check_run', check('completed', 'completed'), 'check.succeeded'],
    ],
  ],
  [
    'a pull request from its branch to the deleted branch',
    'pull_request.merged',
    [
      ['create', { ref_type: 'branch' }, 'code.branch_created'],
      ['push', { created: true, deleted: false }, 'code.pushed'],
      ['pull_request', pull('opened'), 'pull_request.opened'],
      ['pull_request', pull('review_requested'), 'pull_request.review_requested'],
      ['issue_comment', onPull('created'), 'pull_request.commented'],
      ['pull_request_review', review('submitted', 'commented'), 'review.commented'],
      ['pull_request_review_comment', { action: 'created' }, 'review.comment_created'],
      ['push', { created: false, deleted: false }, 'code.pushed'],
      ['pull_request', pull('synchronize'), 'pull_request.synchronized'],
      ['pull_request_review_thread', { action: 'resolved' }, 'review.thread_resolved'],
      ['pull_request_review', review('submitted', 'approved'), 'review.approved'],
      ['pull_request', pull('closed', true), 'pull_request.merged'],
      ['push', { created: false, deleted: false }, 'code.pushed'],
      ['delete', { ref_type: 'branch' }, 'code.branch_deleted'],
      ['push', { created: false, deleted: true }, 'code.ref_deleted'],
    ],
  ],
  [
    'a pull request in the merge queue',
    'pull_request.merged',
    [
      ['pull_request', pull('enqueued'), 'pull_request.enqueued'],
      ['merge_group', { action: 'checks_requested' }, 'merge_group.checks_requested'],
      ['merge_group', { action: 'destroyed', reason: 'merged' }, 'merge_group.destroyed'],
      ['pull_request', pull('dequeued'), 'pull_request.dequeued'],
      ['pull_request', pull('closed', true), 'pull_request.merged'],
    ],
  ],
  [
    'a review of a pull request that is then closed',
    'pull_request.closed',
    [
      ['pull_request_review', review('submitted', 'changes_requested'), 'review.changes_requested'],
      ['pull_request_review', review('dismissed', 'dismissed'), 'review.dismissed'],
      ['issue_comment', onPull('edited'), 'pull_request.comment_updated'],
      ['pull_request', pull('closed'), 'pull_request.closed'],
    ],
  ],
  [
    'an issue with a comment',
    'issue.closed',
    [
      ['issues', { action: 'opened' }, 'issue.opened'],
      ['issues', { action: 'labeled' }, 'issue.labelled'],
      ['issue_comment', { action: 'created', issue: {} }, 'issue.commented'],
      ['issues', { action: 'closed' }, 'issue.closed'],
    ],
  ],
  [
    'a dependency and a sub-issue, reported for both issues',
    'issue.dependency_added',
    [
      ['issue_dependencies', { action: 'blocked_by_added' }, 'issue.dependency_added'],
      ['issue_dependencies', { action: 'blocking_added' }, 'issue.dependent_added'],
      ['sub_issues', { action: 'sub_issue_added' }, 'issue.sub_issue_added'],
      ['sub_issues', { action: 'parent_issue_added' }, 'issue.parent_added'],
    ],
  ],
  [
    'a release without a draft, with its tag and package',
    'release.published',
    [
      ['create', { ref_type: 'tag' }, 'code.tag_created'],
      ['push', { created: true, deleted: false }, 'code.pushed'],
      ['release', { action: 'created' }, 'release.created'],
      ['release', { action: 'published' }, 'release.published'],
      ['release', { action: 'released' }, 'release.released'],
      ['package', { action: 'published' }, 'package.published'],
      ['registry_package', { action: 'published' }, 'registry_package.published'],
    ],
  ],
  [
    'a pre-release from a draft that becomes stable',
    'release.published',
    [
      ['release', { action: 'created' }, 'release.created'],
      ['release', { action: 'published' }, 'release.published'],
      ['release', { action: 'edited' }, 'release.updated'],
      ['release', { action: 'released' }, 'release.released'],
    ],
  ],
  [
    'a deployment after a review',
    'deployment.succeeded',
    [
      ['deployment', { action: 'created' }, 'deployment.created'],
      ['deployment_review', { action: 'requested' }, 'deployment.review_requested'],
      ['deployment_status', status('waiting'), 'deployment.waiting'],
      ['deployment_review', { action: 'approved' }, 'deployment.approved'],
      ['deployment_status', status('queued'), 'deployment.queued'],
      ['deployment_status', status('in_progress'), 'deployment.started'],
      ['deployment_status', status('success'), 'deployment.succeeded'],
      ['deployment_status', status('inactive'), 'deployment.deactivated'],
    ],
  ],
  [
    'a failed deployment with a state that is new',
    'deployment.failed',
    [
      ['deployment_status', status('something_new'), 'deployment.updated'],
      ['deployment_status', status('error'), 'deployment.failed'],
    ],
  ],
  [
    'a repository that becomes public, with a star',
    'repository.publicized',
    [
      ['public', {}, 'repository.made_public'],
      ['repository', { action: 'publicized' }, 'repository.publicized'],
      ['star', { action: 'created' }, 'repository.starred'],
      ['watch', { action: 'started' }, 'repository.watched'],
    ],
  ],
  [
    'a team that gets access to a repository',
    'team.repository_added',
    [
      ['team', { action: 'added_to_repository' }, 'team.repository_added'],
      ['team_add', {}, 'repository.team_added'],
    ],
  ],
  [
    'a vulnerable dependency',
    'dependency_alert.created',
    [
      ['repository_vulnerability_alert', { action: 'create' }, 'vulnerability_alert.created'],
      ['dependabot_alert', { action: 'created' }, 'dependency_alert.created'],
      ['dependabot_alert', { action: 'fixed' }, 'dependency_alert.fixed'],
      ['repository_vulnerability_alert', { action: 'resolve' }, 'vulnerability_alert.fixed'],
    ],
  ],
]

test.each(sequences)(
  'codehost: the events of %s get the expected types, and exactly one of them is %s',
  (_name, once, steps) => {
    const types = steps.map(([event, body]) => codehostTypes.typeOf(event, body))
    expect(types).toEqual(steps.map(([, , type]) => type))
    expect(types.filter((type) => type === once)).toHaveLength(1)
  },
)

test.each<[event: string, body: JsonObject]>([
  ['create', { ref_type: 'else' }],
  ['status', {}],
  ['pull_request', { action: 'something_new' }],
  ['pull_request', {}],
  ['deployment_status', { action: 'deleted', deployment_status: { state: 'success' } }],
  ['project_card', { action: 'created' }],
])('codehost: event %s with the body %j has no type in the table', (event, body) => {
  expect(codehostTypes.typeOf(event, body)).toBeUndefined()
})
