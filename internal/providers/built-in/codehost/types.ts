import { byAction, eventTypes, type TypeCase, type TypeRows } from '../../catalogue.ts'
import { sampleOf } from './samples.ts'

// The meaning of each event and action is from the vendor's page and from the descriptions in its `@octokit/openapi-webhooks-types`
// 12.2.0, read 2026-11: https://docs.github.com/en/webhooks/webhook-events-and-payloads

/** Checks, suites, workflow runs and jobs share the same conclusions. A neutral one does not block a merge. */
const conclusions: readonly (readonly [verb: string, values: readonly string[]])[] = [
  ['succeeded', ['success', 'neutral']],
  ['failed', ['failure', 'timed_out', 'startup_failure']],
  ['cancelled', ['cancelled', 'stale']],
  ['skipped', ['skipped']],
  ['action_required', ['action_required']],
]

function completed(noun: string, member: string): readonly (string | TypeCase)[] {
  return [
    ...conclusions.map(([verb, values]) => ({
      type: `${noun}.${verb}`,
      when: { [`${member}.conclusion`]: values },
    })),
    `${noun}.completed`,
  ]
}

function byState(path: string, types: Readonly<Record<string, readonly string[]>>): readonly TypeCase[] {
  return Object.entries(types).map(([type, values]) => ({ type, when: { [path]: values } }))
}

const code: TypeRows = {
  // A new branch is both `create` and `push`; `create` and `delete` carry the facts about the branch or tag, `push` that of the commits.
  push: [{ type: 'code.ref_deleted', when: { deleted: true } }, 'code.pushed'],
  create: byState('ref_type', { 'code.branch_created': ['branch'], 'code.tag_created': ['tag'] }),
  delete: byState('ref_type', { 'code.branch_deleted': ['branch'], 'code.tag_deleted': ['tag'] }),
  commit_comment: byAction({ created: 'code.commented' }),
  gollum: 'wiki.updated',
  page_build: [
    ...byState('build.status', { 'site.built': ['built'], 'site.build_failed': ['errored'] }),
    'site.build_reported',
  ],
  // A release that is published without a draft is `created`, `published`, and `released` or `prereleased`. `published` carries the
  // publication: the vendor sends it also for a draft, which is `created` when it is saved.
  release: byAction({
    created: 'release.created',
    published: 'release.published',
    released: 'release.released',
    prereleased: 'release.prereleased',
    edited: 'release.updated',
    unpublished: 'release.unpublished',
    deleted: 'release.deleted',
  }),
  // `package` carries the fact; the vendor recommends it over `registry_package`, which reports the same.
  package: byAction({ published: 'package.published', updated: 'package.updated' }),
  registry_package: byAction({
    published: 'registry_package.published',
    updated: 'registry_package.updated',
  }),
}

const pullRequests: TypeRows = {
  pull_request: byAction({
    opened: 'pull_request.opened',
    edited: 'pull_request.updated',
    synchronize: 'pull_request.synchronized',
    ready_for_review: 'pull_request.ready_for_review',
    converted_to_draft: 'pull_request.converted_to_draft',
    review_requested: 'pull_request.review_requested',
    review_request_removed: 'pull_request.review_request_removed',
    closed: [{ type: 'pull_request.merged', when: { 'pull_request.merged': true } }, 'pull_request.closed'],
    reopened: 'pull_request.reopened',
    assigned: 'pull_request.assigned',
    unassigned: 'pull_request.unassigned',
    labeled: 'pull_request.labelled',
    unlabeled: 'pull_request.unlabelled',
    milestoned: 'pull_request.milestoned',
    demilestoned: 'pull_request.demilestoned',
    locked: 'pull_request.locked',
    unlocked: 'pull_request.unlocked',
    enqueued: 'pull_request.enqueued',
    dequeued: 'pull_request.dequeued',
    auto_merge_enabled: 'pull_request.auto_merge_enabled',
    auto_merge_disabled: 'pull_request.auto_merge_disabled',
    stacked: 'pull_request.stacked',
  }),
  // A review with comments on lines is one `pull_request_review` and one `pull_request_review_comment` per line; so is a reply to such a
  // comment. The review carries its verdict.
  pull_request_review: byAction({
    submitted: [
      ...byState('review.state', {
        'review.approved': ['approved'],
        'review.changes_requested': ['changes_requested'],
        'review.commented': ['commented'],
      }),
      'review.submitted',
    ],
    edited: 'review.updated',
    dismissed: 'review.dismissed',
  }),
  pull_request_review_comment: byAction({
    created: 'review.comment_created',
    edited: 'review.comment_updated',
    deleted: 'review.comment_deleted',
  }),
  pull_request_review_thread: byAction({
    resolved: 'review.thread_resolved',
    unresolved: 'review.thread_unresolved',
  }),
  merge_group: byAction({
    checks_requested: 'merge_group.checks_requested',
    destroyed: 'merge_group.destroyed',
  }),
}

/** The vendor sends `issue_comment` for the conversation of a pull request as well; the issue then has the member `pull_request`. */
function comment(verb: string): readonly (string | TypeCase)[] {
  const isPullRequest = { 'issue.pull_request': { isPresent: true } }
  return [{ type: `pull_request.${verb}`, when: isPullRequest }, `issue.${verb}`]
}

const issues: TypeRows = {
  issues: byAction({
    opened: 'issue.opened',
    edited: 'issue.updated',
    closed: 'issue.closed',
    reopened: 'issue.reopened',
    deleted: 'issue.deleted',
    transferred: 'issue.transferred',
    assigned: 'issue.assigned',
    unassigned: 'issue.unassigned',
    labeled: 'issue.labelled',
    unlabeled: 'issue.unlabelled',
    milestoned: 'issue.milestoned',
    demilestoned: 'issue.demilestoned',
    locked: 'issue.locked',
    unlocked: 'issue.unlocked',
    pinned: 'issue.pinned',
    unpinned: 'issue.unpinned',
    typed: 'issue.typed',
    untyped: 'issue.untyped',
    field_added: 'issue.field_set',
    field_removed: 'issue.field_cleared',
  }),
  issue_comment: byAction({
    created: comment('commented'),
    edited: comment('comment_updated'),
    deleted: comment('comment_deleted'),
    pinned: 'issue.comment_pinned',
    unpinned: 'issue.comment_unpinned',
  }),
  // The vendor reports both ends of a dependency: the blocked issue carries the fact.
  issue_dependencies: byAction({
    blocked_by_added: 'issue.dependency_added',
    blocked_by_removed: 'issue.dependency_removed',
    blocking_added: 'issue.dependent_added',
    blocking_removed: 'issue.dependent_removed',
  }),
  issue_relates_to: byAction({
    relates_to_added: 'issue.relation_added',
    relates_to_removed: 'issue.relation_removed',
  }),
  // The vendor reports both ends: the parent carries the fact.
  sub_issues: byAction({
    sub_issue_added: 'issue.sub_issue_added',
    sub_issue_removed: 'issue.sub_issue_removed',
    parent_issue_added: 'issue.parent_added',
    parent_issue_removed: 'issue.parent_removed',
  }),
  label: byAction({
    created: 'label.created',
    edited: 'label.updated',
    deleted: 'label.deleted',
    archived: 'label.archived',
    unarchived: 'label.unarchived',
  }),
  // A new milestone is `created`; `opened` is one that was closed.
  milestone: byAction({
    created: 'milestone.created',
    edited: 'milestone.updated',
    closed: 'milestone.closed',
    opened: 'milestone.reopened',
    deleted: 'milestone.deleted',
  }),
  discussion: byAction({
    created: 'discussion.created',
    edited: 'discussion.updated',
    category_changed: 'discussion.category_changed',
    answered: 'discussion.answered',
    unanswered: 'discussion.unanswered',
    labeled: 'discussion.labelled',
    unlabeled: 'discussion.unlabelled',
    locked: 'discussion.locked',
    unlocked: 'discussion.unlocked',
    pinned: 'discussion.pinned',
    unpinned: 'discussion.unpinned',
    transferred: 'discussion.transferred',
    closed: 'discussion.closed',
    reopened: 'discussion.reopened',
    deleted: 'discussion.deleted',
  }),
  discussion_comment: byAction({
    created: 'discussion.commented',
    edited: 'discussion.comment_updated',
    deleted: 'discussion.comment_deleted',
  }),
  projects_v2: byAction({
    created: 'project.created',
    edited: 'project.updated',
    closed: 'project.closed',
    reopened: 'project.reopened',
    deleted: 'project.deleted',
  }),
  projects_v2_item: byAction({
    created: 'project_item.created',
    edited: 'project_item.updated',
    converted: 'project_item.converted',
    reordered: 'project_item.reordered',
    archived: 'project_item.archived',
    restored: 'project_item.restored',
    deleted: 'project_item.deleted',
  }),
  projects_v2_status_update: byAction({
    created: 'project.status_posted',
    edited: 'project.status_updated',
    deleted: 'project.status_deleted',
  }),
}

// One run of a workflow is reported by `workflow_run`, by `workflow_job` and `check_run` for each job, and by `check_suite`.
// `workflow_run` carries the result as `build.*`; each of the others has a noun of its own.
const builds: TypeRows = {
  workflow_run: byAction({
    requested: 'build.queued',
    in_progress: 'build.started',
    completed: completed('build', 'workflow_run'),
  }),
  workflow_dispatch: 'build.dispatched',
  workflow_job: byAction({
    queued: 'build_job.queued',
    waiting: 'build_job.waiting',
    in_progress: 'build_job.started',
    completed: completed('build_job', 'workflow_job'),
  }),
  // A check that is created with its result is `created` and `completed` with the same content, as others have observed
  // (https://github.com/getsentry/eng-pipes/pull/43, read 2026-11); the vendor's page does not say. `completed` carries the result.
  check_run: byAction({
    created: [
      ...byState('check_run.status', {
        'check.queued': ['queued', 'pending'],
        'check.started': ['in_progress'],
      }),
      'check.created',
    ],
    completed: completed('check', 'check_run'),
    requested_action: 'check.action_requested',
    rerequested: 'check.rerun_requested',
  }),
  check_suite: byAction({
    requested: 'check_suite.requested',
    rerequested: 'check_suite.rerun_requested',
    completed: completed('check_suite', 'check_suite'),
  }),
  status: byState('state', {
    'commit_status.pending': ['pending'],
    'commit_status.succeeded': ['success'],
    'commit_status.failed': ['failure', 'error'],
  }),
  deployment: byAction({ created: 'deployment.created' }),
  // The vendor sets earlier deployments of an environment to `inactive` when a later one succeeds, except transient and production ones.
  deployment_status: byAction({
    created: [
      ...byState('deployment_status.state', {
        'deployment.queued': ['queued', 'pending'],
        'deployment.waiting': ['waiting'],
        'deployment.started': ['in_progress'],
        'deployment.succeeded': ['success'],
        'deployment.failed': ['failure', 'error'],
        'deployment.deactivated': ['inactive'],
      }),
      'deployment.updated',
    ],
  }),
  deployment_review: byAction({
    requested: 'deployment.review_requested',
    approved: 'deployment.approved',
    rejected: 'deployment.rejected',
  }),
  deployment_protection_rule: byAction({ requested: 'deployment.protection_requested' }),
}

const repositories: TypeRows = {
  repository: byAction({
    created: 'repository.created',
    edited: 'repository.updated',
    renamed: 'repository.renamed',
    transferred: 'repository.transferred',
    archived: 'repository.archived',
    unarchived: 'repository.unarchived',
    publicized: 'repository.publicized',
    privatized: 'repository.privatized',
    deleted: 'repository.deleted',
  }),
  // Sent beside `repository` with `publicized`, which carries the fact.
  public: 'repository.made_public',
  fork: 'repository.forked',
  star: byAction({ created: 'repository.starred', deleted: 'repository.unstarred' }),
  // `watch` is the older name of a star and is sent beside it, but not for its removal: `star` carries the fact.
  watch: byAction({ started: 'repository.watched' }),
  repository_import: byState('status', {
    'repository.import_succeeded': ['success'],
    'repository.import_failed': ['failure'],
    'repository.import_cancelled': ['cancelled'],
  }),
  // The action is the name that the sender chose.
  repository_dispatch: 'repository.dispatched',
  member: byAction({
    added: 'repository.collaborator_added',
    edited: 'repository.collaborator_updated',
    removed: 'repository.collaborator_removed',
  }),
  custom_property: byAction({
    created: 'custom_property.created',
    updated: 'custom_property.updated',
    promote_to_enterprise: 'custom_property.promoted',
    deleted: 'custom_property.deleted',
  }),
  custom_property_values: byAction({ updated: 'repository.properties_updated' }),
  branch_protection_rule: byAction({
    created: 'branch_protection.created',
    edited: 'branch_protection.updated',
    deleted: 'branch_protection.deleted',
  }),
  branch_protection_configuration: byAction({
    enabled: 'branch_protection.enabled',
    disabled: 'branch_protection.disabled',
  }),
  repository_ruleset: byAction({
    created: 'ruleset.created',
    edited: 'ruleset.updated',
    deleted: 'ruleset.deleted',
  }),
  deploy_key: byAction({ created: 'deploy_key.created', deleted: 'deploy_key.deleted' }),
}

const security: TypeRows = {
  dependabot_alert: byAction({
    created: 'dependency_alert.created',
    fixed: 'dependency_alert.fixed',
    dismissed: 'dependency_alert.dismissed',
    auto_dismissed: 'dependency_alert.auto_dismissed',
    reopened: 'dependency_alert.reopened',
    auto_reopened: 'dependency_alert.auto_reopened',
    reintroduced: 'dependency_alert.reintroduced',
    assignees_changed: 'dependency_alert.assignees_changed',
  }),
  // Closing down at the vendor and sent beside `dependabot_alert`, which carries the fact.
  repository_vulnerability_alert: byAction({
    create: 'vulnerability_alert.created',
    dismiss: 'vulnerability_alert.dismissed',
    reopen: 'vulnerability_alert.reopened',
    resolve: 'vulnerability_alert.fixed',
  }),
  code_scanning_alert: byAction({
    created: 'code_alert.created',
    fixed: 'code_alert.fixed',
    closed_by_user: 'code_alert.dismissed',
    reopened_by_user: 'code_alert.reopened',
    reopened: 'code_alert.reintroduced',
    appeared_in_branch: 'code_alert.branch_affected',
    updated_assignment: 'code_alert.assignees_changed',
  }),
  secret_scanning_alert: byAction({
    created: 'secret_alert.created',
    resolved: 'secret_alert.resolved',
    reopened: 'secret_alert.reopened',
    publicly_leaked: 'secret_alert.publicly_leaked',
    validated: 'secret_alert.validated',
    assigned: 'secret_alert.assigned',
    unassigned: 'secret_alert.unassigned',
    metadata_created: 'secret_alert.metadata_added',
    metadata_removed: 'secret_alert.metadata_removed',
  }),
  secret_scanning_alert_location: byAction({ created: 'secret_alert.location_added' }),
  secret_scanning_scan: byAction({ completed: 'secret_scan.completed' }),
  security_advisory: byAction({
    published: 'security_advisory.published',
    updated: 'security_advisory.updated',
    withdrawn: 'security_advisory.withdrawn',
  }),
  repository_advisory: byAction({
    published: 'repository_advisory.published',
    reported: 'repository_advisory.reported',
  }),
  security_and_analysis: 'repository.security_settings_updated',
}

const accounts: TypeRows = {
  organization: byAction({
    member_invited: 'organization.member_invited',
    member_added: 'organization.member_added',
    member_removed: 'organization.member_removed',
    renamed: 'organization.renamed',
    deleted: 'organization.deleted',
  }),
  org_block: byAction({ blocked: 'organization.user_blocked', unblocked: 'organization.user_unblocked' }),
  team: byAction({
    created: 'team.created',
    edited: 'team.updated',
    deleted: 'team.deleted',
    added_to_repository: 'team.repository_added',
    removed_from_repository: 'team.repository_removed',
  }),
  // Sent beside `team` with `added_to_repository`, which carries the fact.
  team_add: 'repository.team_added',
  membership: byAction({ added: 'team.member_added', removed: 'team.member_removed' }),
  installation: byAction({
    created: 'app.installed',
    deleted: 'app.uninstalled',
    suspend: 'app.suspended',
    unsuspend: 'app.unsuspended',
    new_permissions_accepted: 'app.permissions_changed',
  }),
  installation_repositories: byAction({
    added: 'app.repositories_added',
    removed: 'app.repositories_removed',
  }),
  installation_target: byAction({ renamed: 'app.account_renamed' }),
  github_app_authorization: byAction({ revoked: 'app.deauthorized' }),
  personal_access_token_request: byAction({
    created: 'access_token_request.created',
    approved: 'access_token_request.approved',
    denied: 'access_token_request.denied',
    cancelled: 'access_token_request.cancelled',
  }),
  marketplace_purchase: byAction({
    purchased: 'marketplace_purchase.created',
    changed: 'marketplace_purchase.updated',
    cancelled: 'marketplace_purchase.cancelled',
    pending_change: 'marketplace_purchase.change_scheduled',
    pending_change_cancelled: 'marketplace_purchase.change_cancelled',
  }),
  sponsorship: byAction({
    created: 'sponsorship.created',
    edited: 'sponsorship.updated',
    cancelled: 'sponsorship.cancelled',
    pending_cancellation: 'sponsorship.cancellation_scheduled',
    tier_changed: 'sponsorship.tier_changed',
    pending_tier_change: 'sponsorship.tier_change_scheduled',
  }),
  ping: 'webhook.pinged',
  meta: byAction({ deleted: 'webhook.deleted' }),
}

/** Normalized types by event. */
export const codehostTypes = eventTypes(
  'codehost',
  { ...code, ...pullRequests, ...issues, ...builds, ...repositories, ...security, ...accounts },
  sampleOf,
)
