import {
  api,
  developer,
  headSha,
  installation,
  organization,
  repository,
  repositoryReference,
  reviewer,
  type Sample,
  team,
  user,
  web,
} from './scene.ts'

const owner = user('acme-example', 58_310_442, 'Organization')
const property = {
  property_name: 'tier',
  value_type: 'single_select',
  required: true,
  default_value: 'internal',
  description: 'Who depends on the repository',
  allowed_values: ['internal', 'customer-facing'],
  source_type: 'organization',
  values_editable_by: 'org_actors',
  url: 'https://api.github.com/orgs/acme-example/properties/schema/tier',
}
const rule = {
  id: 50_112_774,
  repository_id: 612_004_881,
  name: 'main',
  admin_enforced: true,
  required_approving_review_count: 1,
  required_status_checks: ['test (24)'],
  required_status_checks_enforcement_level: 'everyone',
  dismiss_stale_reviews_on_push: true,
  require_code_owner_review: true,
  allow_force_pushes_enforcement_level: 'off',
  allow_deletions_enforcement_level: 'off',
  authorized_actors_only: false,
  authorized_actor_names: [],
  created_at: '2025-02-18T09:00:00Z',
  updated_at: '2026-11-10T10:00:00Z',
}
const ruleset = {
  id: 1_402_337,
  node_id: 'RRS_lACqUmVwb3NpdG9yec4keKVRzgAVZfE',
  name: 'Releases',
  target: 'tag',
  source_type: 'Repository',
  source: 'acme-example/order-service',
  enforcement: 'active',
  conditions: { ref_name: { include: ['refs/tags/v*'], exclude: [] } },
  rules: [{ type: 'deletion' }, { type: 'non_fast_forward' }],
  bypass_actors: [],
  created_at: '2026-05-04T08:00:00Z',
  updated_at: '2026-11-10T10:01:00Z',
}
const hook = {
  type: 'Repository',
  id: 501_883_207,
  name: 'web',
  active: true,
  events: ['push', 'pull_request'],
  config: {
    content_type: 'json',
    insecure_ssl: '0',
    url: 'https://hooks.example.com/v1/t/acme/webhooks/codehost',
  },
  created_at: '2026-11-10T08:00:00Z',
  updated_at: '2026-11-10T08:00:00Z',
}
const membership = {
  url: 'https://api.github.com/orgs/acme-example/memberships/acme-reviewer',
  state: 'active',
  organization_url: 'https://api.github.com/orgs/acme-example',
  role: 'member',
  user: reviewer,
}
const invitation = {
  id: 71_204_338,
  node_id: 'OI_kwDOA3m_Ks4EPn-y',
  login: 'acme-reviewer',
  email: null,
  role: 'direct_member',
  created_at: '2026-11-10T10:05:00Z',
  failed_at: null,
  failed_reason: null,
  inviter: developer,
  team_count: 1,
  invitation_source: 'member',
  invitation_teams_url: 'https://api.github.com/organizations/58310442/invitations/71204338/teams',
}
const tokenRequest = {
  id: 904_117,
  owner: reviewer,
  token_id: 22_803_114,
  token_name: 'release notes',
  token_expired: false,
  token_expires_at: '2027-02-08T00:00:00Z',
  token_last_used_at: null,
  repository_selection: 'subset',
  repository_count: 1,
  repositories: [repositoryReference],
  created_at: '2026-11-10T10:10:00Z',
  permissions_added: { organization: {}, repository: { contents: 'read', metadata: 'read' } },
  permissions_upgraded: {},
  permissions_result: { repository: { contents: 'read', metadata: 'read' } },
}
const plan = {
  id: 10_337,
  name: 'Team',
  description: 'For up to 20 people',
  monthly_price_in_cents: 4900,
  yearly_price_in_cents: 49_000,
  price_model: 'FLAT_RATE',
  has_free_trial: true,
  unit_name: null,
  bullets: ['20 people', 'Support by e-mail'],
}
const purchase = {
  account: { type: 'Organization', id: 58_310_442, login: 'acme-example', node_id: 'O_kgDOA3m_Kg' },
  billing_cycle: 'monthly',
  unit_count: 1,
  on_free_trial: false,
  free_trial_ends_on: null,
  next_billing_date: '2026-12-10T00:00:00+00:00',
  plan,
}
const previousPurchase = {
  ...purchase,
  plan: { ...plan, id: 10_336, name: 'Starter', monthly_price_in_cents: 1900 },
}
const tier = {
  node_id: 'ST_kwDOA3m_Ks4AAmJn',
  name: '$25 a month',
  description: 'Your name in the README',
  monthly_price_in_cents: 2500,
  monthly_price_in_dollars: 25,
  is_one_time: false,
  is_custom_amount: false,
  created_at: '2026-01-08T11:00:00Z',
}
const sponsorship = {
  node_id: 'S_kwHOAnSuN84ABfQz',
  created_at: '2026-11-10T10:15:00Z',
  privacy_level: 'public',
  tier,
  sponsorable: owner,
  sponsor: reviewer,
}
const tierFrom = { tier: { from: { ...tier, name: '$10 a month', monthly_price_in_cents: 1000 } } }
const effective = { effective_date: '2026-12-10T00:00:00Z' }

/** Examples of events about repositories, organizations, teams, apps and purchases. */
export const accounts: Readonly<Record<string, Sample>> = {
  repository: {
    scope: 'repository',
    body: { action: '' },
    byType: {
      'repository.updated': { changes: { description: { from: 'Accepts orders' } } },
      'repository.renamed': { changes: { repository: { name: { from: 'orders' } } } },
      'repository.transferred': { changes: { owner: { from: { user: developer } } } },
      'repository.archived': { repository: { ...repository, archived: true } },
      'repository.publicized': { repository: { ...repository, private: false, visibility: 'public' } },
    },
  },
  public: {
    scope: 'repository',
    body: { repository: { ...repository, private: false, visibility: 'public' } },
  },
  fork: {
    scope: 'repository',
    body: {
      forkee: {
        ...repository,
        id: 702_114_983,
        node_id: 'R_kgDOKdmrRw',
        full_name: 'acme-reviewer/order-service',
        owner: reviewer,
        fork: true,
        html_url: 'https://github.com/acme-reviewer/order-service',
      },
    },
  },
  star: {
    scope: 'repository',
    body: { action: '', starred_at: '2026-11-10T10:20:00Z' },
    byType: { 'repository.unstarred': { starred_at: null } },
  },
  watch: { scope: 'repository', body: { action: '' } },
  repository_import: { scope: 'repository', body: { status: 'success' } },
  repository_dispatch: {
    scope: 'repository',
    body: {
      action: 'deploy-docs',
      branch: 'main',
      client_payload: { version: '2.4.0' },
      installation: { id: 47_118_920 },
    },
  },
  member: {
    scope: 'repository',
    body: { action: '', member: reviewer },
    byType: {
      'repository.collaborator_added': { changes: { permission: { to: 'write' } } },
      'repository.collaborator_updated': { changes: { permission: { from: 'read', to: 'write' } } },
    },
  },
  custom_property: {
    scope: 'organization',
    body: { action: '', definition: property },
    byType: { 'custom_property.deleted': { definition: { property_name: 'tier' } } },
  },
  custom_property_values: {
    scope: 'repository',
    body: {
      action: '',
      new_property_values: [{ property_name: 'tier', value: 'customer-facing' }],
      old_property_values: [{ property_name: 'tier', value: 'internal' }],
    },
  },
  branch_protection_rule: {
    scope: 'repository',
    body: { action: '', rule },
    byType: { 'branch_protection.updated': { changes: { admin_enforced: { from: false } } } },
  },
  branch_protection_configuration: { scope: 'repository', body: { action: '' } },
  repository_ruleset: {
    scope: 'repository',
    body: { action: '', repository_ruleset: ruleset },
    byType: { 'ruleset.updated': { changes: { enforcement: { from: 'evaluate' } } } },
  },
  deploy_key: {
    scope: 'repository',
    body: {
      action: '',
      key: {
        id: 98_440_127,
        title: 'cluster production',
        read_only: true,
        verified: true,
        enabled: true,
        added_by: 'acme-developer',
        url: `${api}/keys/98440127`,
        created_at: '2026-11-10T10:25:00Z',
        last_used: null,
      },
    },
  },
  organization: {
    scope: 'organization',
    body: { action: '' },
    byType: {
      'organization.member_added': { membership },
      'organization.member_removed': { membership },
      'organization.member_invited': { invitation, user: reviewer },
      'organization.renamed': { changes: { login: { from: 'acme-samples' } } },
    },
  },
  org_block: { scope: 'organization', body: { action: '', blocked_user: user('acme-stranger', 41_200_399) } },
  team: {
    scope: 'organization',
    body: { action: '', team },
    byType: {
      'team.updated': { changes: { description: { from: 'Owns orders' } } },
      'team.repository_added': { repository },
      'team.repository_removed': { repository },
    },
  },
  team_add: { scope: 'repository', body: { team } },
  membership: { scope: 'organization', body: { action: '', scope: 'team', member: reviewer, team } },
  installation: {
    scope: 'installation',
    body: { action: '', repositories: [repositoryReference], requester: null },
    byType: {
      'app.suspended': {
        installation: { ...installation, suspended_at: '2026-11-10T10:30:00Z', suspended_by: developer },
      },
    },
  },
  installation_repositories: {
    scope: 'installation',
    body: {
      action: '',
      repository_selection: 'selected',
      requester: null,
      repositories_added: [repositoryReference],
      repositories_removed: [],
    },
    byType: {
      'app.repositories_removed': {
        repositories_added: [],
        repositories_removed: [repositoryReference],
      },
    },
  },
  installation_target: {
    scope: 'organization',
    body: {
      action: '',
      account: owner,
      target_type: 'Organization',
      installation: { id: 47_118_920 },
      changes: { login: { from: 'acme-samples' } },
    },
  },
  github_app_authorization: { scope: 'sender', body: { action: '' } },
  personal_access_token_request: {
    scope: 'organization',
    body: { action: '', personal_access_token_request: tokenRequest, installation: { id: 47_118_920 } },
  },
  marketplace_purchase: {
    scope: 'sender',
    body: { action: '', effective_date: '2026-11-10T00:00:00+00:00', marketplace_purchase: purchase },
    byType: {
      'marketplace_purchase.updated': { previous_marketplace_purchase: previousPurchase },
      'marketplace_purchase.change_scheduled': { previous_marketplace_purchase: previousPurchase },
    },
  },
  sponsorship: {
    scope: 'sender',
    body: { action: '', sponsorship },
    byType: {
      'sponsorship.updated': { changes: { privacy_level: { from: 'private' } } },
      'sponsorship.cancellation_scheduled': effective,
      'sponsorship.tier_changed': { changes: tierFrom },
      'sponsorship.tier_change_scheduled': { changes: tierFrom, ...effective },
    },
  },
  ping: {
    scope: 'repository',
    body: { zen: 'Practicality beats purity.', hook_id: 501_883_207, hook },
  },
  meta: { scope: 'repository', body: { action: '', hook_id: 501_883_207, hook } },
}

const advisory = {
  ghsa_id: 'GHSA-7p3x-9w4q-2m5h',
  severity: 'high',
  summary: 'Prototype pollution in example-merge',
  description: 'A crafted object changes all objects.',
  cvss: { vector_string: 'CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:H/A:N', score: 7.5 },
  cwes: [{ cwe_id: 'CWE-1321', name: 'Prototype Pollution' }],
  identifiers: [{ type: 'GHSA', value: 'GHSA-7p3x-9w4q-2m5h' }],
  references: [{ url: 'https://github.com/advisories/GHSA-7p3x-9w4q-2m5h' }],
  published_at: '2026-11-09T17:00:00Z',
  updated_at: '2026-11-10T02:00:00Z',
  withdrawn_at: null,
}
const vulnerability = {
  package: { ecosystem: 'npm', name: 'example-merge' },
  severity: 'high',
  vulnerable_version_range: '< 3.1.4',
  first_patched_version: { identifier: '3.1.4' },
}
const fullAdvisory = { ...advisory, cve_id: 'CVE-2026-41107', vulnerabilities: [vulnerability] }
const dependabotAlert = {
  number: 27,
  state: 'open',
  url: `${api}/dependabot/alerts/27`,
  html_url: `${web}/security/dependabot/27`,
  dependency: { package: vulnerability.package, manifest_path: 'package.json', scope: 'runtime' },
  security_advisory: fullAdvisory,
  security_vulnerability: vulnerability,
  created_at: '2026-11-09T17:05:00Z',
  updated_at: '2026-11-10T07:00:00Z',
  fixed_at: null,
  dismissed_at: null,
  dismissed_by: null,
  dismissed_reason: null,
  dismissed_comment: null,
  auto_dismissed_at: null,
}
const vulnerabilityAlert = {
  id: 4_420_118,
  node_id: 'RVA_kwDOJHpZUc4AQ3JG',
  number: 27,
  state: 'open',
  severity: 'high',
  affected_package_name: 'example-merge',
  affected_range: '< 3.1.4',
  fixed_in: '3.1.4',
  external_identifier: 'CVE-2026-41107',
  ghsa_id: 'GHSA-7p3x-9w4q-2m5h',
  external_reference: 'https://nvd.nist.gov/vuln/detail/CVE-2026-41107',
  created_at: '2026-11-09T17:05:00Z',
}
const codeAlert = {
  number: 14,
  state: 'open',
  url: `${api}/code-scanning/alerts/14`,
  html_url: `${web}/security/code-scanning/14`,
  rule: { id: 'js/sql-injection', severity: 'error', description: 'Query built from user input' },
  tool: { name: 'CodeQL', version: '2.23.1' },
  most_recent_instance: {
    ref: 'refs/heads/main',
    state: 'open',
    commit_sha: headSha,
    category: '/language:javascript',
    analysis_key: '.github/workflows/codeql.yml:analyze',
    environment: '{}',
    location: { path: 'src/search.ts', start_line: 31, end_line: 31, start_column: 14, end_column: 58 },
    message: { text: 'This query depends on a user-provided value.' },
  },
  created_at: '2026-11-10T08:40:00Z',
  updated_at: '2026-11-10T08:40:00Z',
  fixed_at: null,
  dismissed_at: null,
  dismissed_by: null,
  dismissed_reason: null,
  dismissed_comment: null,
}
const dismissed = {
  state: 'dismissed',
  dismissed_at: '2026-11-10T10:40:00Z',
  dismissed_by: developer,
  dismissed_comment: 'Only in a test',
}
const secretAlert = {
  number: 3,
  secret_type: 'acme_service_key',
  secret_type_display_name: 'Acme service key',
  url: `${api}/secret-scanning/alerts/3`,
  html_url: `${web}/security/secret-scanning/3`,
  locations_url: `${api}/secret-scanning/alerts/3/locations`,
  validity: 'unknown',
  publicly_leaked: false,
  resolution: null,
  resolved_at: null,
  resolved_by: null,
  resolution_comment: null,
  push_protection_bypassed: false,
  push_protection_bypassed_at: null,
  push_protection_bypassed_by: null,
  created_at: '2026-11-10T08:41:00Z',
  updated_at: '2026-11-10T08:41:00Z',
}
const repositoryAdvisory = {
  ghsa_id: 'GHSA-4c8r-6vj2-x9mp',
  cve_id: null,
  severity: 'medium',
  state: 'published',
  url: `${api}/security-advisories/GHSA-4c8r-6vj2-x9mp`,
  author: reviewer,
  publisher: developer,
  html_url: `${web}/security/advisories/GHSA-4c8r-6vj2-x9mp`,
  summary: 'Totals disclose discounts',
  description: 'An order of another customer can be read.',
  cwe_ids: ['CWE-639'],
  submission: null,
  identifiers: [{ type: 'GHSA', value: 'GHSA-4c8r-6vj2-x9mp' }],
  created_at: '2026-11-08T12:00:00Z',
  updated_at: '2026-11-10T10:45:00Z',
  published_at: '2026-11-10T10:45:00Z',
  closed_at: null,
  withdrawn_at: null,
}

/** Examples of events about security. */
export const security: Readonly<Record<string, Sample>> = {
  dependabot_alert: {
    scope: 'repository',
    body: { action: '', alert: dependabotAlert },
    byType: {
      'dependency_alert.fixed': {
        alert: { ...dependabotAlert, state: 'fixed', fixed_at: '2026-11-10T10:39:00Z' },
      },
      'dependency_alert.dismissed': {
        alert: { ...dependabotAlert, ...dismissed, dismissed_reason: 'not_used' },
      },
      'dependency_alert.auto_dismissed': {
        alert: { ...dependabotAlert, state: 'auto_dismissed', auto_dismissed_at: '2026-11-10T10:39:00Z' },
      },
      'dependency_alert.assignees_changed': { alert: { ...dependabotAlert, assignees: [developer] } },
    },
  },
  repository_vulnerability_alert: {
    scope: 'repository',
    body: { action: '', alert: vulnerabilityAlert },
    byType: {
      'vulnerability_alert.dismissed': {
        alert: {
          ...vulnerabilityAlert,
          state: 'dismissed',
          dismisser: developer,
          dismiss_reason: 'not_used',
          dismissed_at: '2026-11-10T10:40:00Z',
        },
      },
      'vulnerability_alert.fixed': {
        alert: { ...vulnerabilityAlert, state: 'fixed', fixed_at: '2026-11-10T10:39:00Z' },
      },
    },
  },
  code_scanning_alert: {
    scope: 'repository',
    body: { action: '', ref: 'refs/heads/main', commit_oid: headSha, alert: codeAlert },
    byType: {
      'code_alert.fixed': { alert: { ...codeAlert, state: 'fixed', fixed_at: '2026-11-10T10:39:00Z' } },
      'code_alert.dismissed': {
        ref: '',
        commit_oid: '',
        alert: { ...codeAlert, ...dismissed, dismissed_reason: 'used in tests' },
      },
      'code_alert.assignees_changed': { alert: { ...codeAlert, assignees: [developer] } },
    },
  },
  secret_scanning_alert: {
    scope: 'repository',
    body: { action: '', alert: secretAlert },
    byType: {
      'secret_alert.resolved': {
        alert: {
          ...secretAlert,
          resolution: 'revoked',
          resolved_at: '2026-11-10T10:42:00Z',
          resolved_by: developer,
          resolution_comment: 'Replaced',
        },
      },
      'secret_alert.publicly_leaked': { alert: { ...secretAlert, publicly_leaked: true } },
      'secret_alert.validated': { alert: { ...secretAlert, validity: 'inactive' } },
      'secret_alert.assigned': { alert: { ...secretAlert, assigned_to: developer }, assignee: developer },
      'secret_alert.unassigned': { assignee: developer },
    },
  },
  secret_scanning_alert_location: {
    scope: 'repository',
    body: {
      action: '',
      alert: secretAlert,
      location: {
        type: 'commit',
        details: {
          path: 'config/local.env',
          start_line: 2,
          end_line: 2,
          start_column: 12,
          end_column: 44,
          blob_sha: 'c81f4e0a95b3d27601fe58c49a7d2b6038f1e5ac',
          blob_url: `${api}/git/blobs/c81f4e0a`,
          commit_sha: headSha,
          commit_url: `${api}/git/commits/${headSha}`,
        },
      },
    },
  },
  secret_scanning_scan: {
    scope: 'repository',
    body: {
      action: '',
      type: 'backfill',
      source: 'git',
      secret_types: null,
      custom_pattern_name: null,
      started_at: '2026-11-10T08:35:00Z',
      completed_at: '2026-11-10T08:41:00Z',
    },
  },
  security_advisory: {
    scope: 'sender',
    body: { action: '', security_advisory: { ...advisory, vulnerabilities: [vulnerability] } },
    byType: {
      'security_advisory.withdrawn': {
        security_advisory: {
          ...advisory,
          vulnerabilities: [vulnerability],
          withdrawn_at: '2026-11-11T09:00:00Z',
        },
      },
    },
  },
  repository_advisory: {
    scope: 'repository',
    body: { action: '', repository_advisory: repositoryAdvisory },
    byType: {
      'repository_advisory.reported': {
        repository_advisory: {
          ...repositoryAdvisory,
          state: 'triage',
          published_at: null,
          publisher: null,
          submission: { accepted: false },
        },
      },
    },
  },
  security_and_analysis: {
    scope: 'repository',
    body: {
      changes: { from: { security_and_analysis: { secret_scanning: { status: 'disabled' } } } },
      organization,
    },
  },
}
