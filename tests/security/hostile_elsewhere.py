"""Hostile input that is no request to our listeners: names and texts on their way to people, kernel lines, files."""

from __future__ import annotations

from tests.security.hostile import Hostile

_HERE = "tests/security/"


def _row(name: str, group: str, sends: str, meets: str, told: str, *tests: str) -> Hostile:
    return Hostile(name=name, group=group, sends=sends, meets=meets, told=told, tests=tests)


_SHOWN = "nothing to tell: it is shown as the text that it is"
ROWS: tuple[Hostile, ...] = (
    _row("XSS on the page", "texts", "markup as a node's, GPU's, rack's, job's, pod's or queue's name, in a kernel "
         "line, an alert's labels, a person's reason",
         "shown as text on every view, no script ran, the policy (CSP) would "
         "have stopped it", _SHOWN,
         _HERE + "test_page_script.py::test_on_no_view_does_a_name_run",
         _HERE + "test_page_script.py::test_the_policy_holds_although_markup_should_get_in",
         "tests/show/test_page_access.py::test_names_that_are_markup_are_names"),
    _row("markup in the digest", "texts", "the same names in the weekly summary", "no script, image, link or handler",
         _SHOWN, _HERE + "test_page_script.py::test_the_digest_holds_no_markup_of_strangers",
         "tests/digest/test_words.py::test_the_page_is_whole_safe_and_fetches_nothing"),
    _row("mail headers by a name", "texts", "a name with `\\r\\nBcc: …`", "one line, no header more", _SHOWN,
         "tests/oncall/test_email.py::test_a_name_cannot_add_headers"),
    _row("calling everybody in a chat", "texts", "a job called `<!channel>`, `<at id=all>`", "nobody is woken by it",
         _SHOWN, "tests/oncall/test_any_message.py::test_any_message_is_taken_with_its_first_line",
         "tests/oncall/test_text.py::test_one_line_is_one_printable_line"),
    _row("steering a terminal", "texts", "ANSI escapes, title, carriage return, right-to-left marks in lines and "
         "reasons", "shown by number in `status`, `top`, `explain`, `findings`, `history`, `inspect`", _SHOWN,
         _HERE + "test_texts.py::test_no_verb_lets_a_kernel_line_or_a_person_steer_the_terminal",
         _HERE + "test_texts.py::test_no_character_that_steers_a_terminal_gets_through",
         _HERE + "test_texts.py::test_a_log_that_somebody_gives_steers_no_terminal"),
    _row("a second line in the log", "texts", "a kernel line with a line end and `level=error`", "one line, escaped",
         _SHOWN, _HERE + "test_kernel_forgery.py::test_a_kernel_line_makes_no_second_line_and_steers_nothing"),
    _row("formulas in an export", "texts", "`=cmd|…`, `+1`, `@SUM` as a name in `trimtab db export`",
         "begins with an apostrophe", _SHOWN, _HERE + "test_texts.py::test_no_cell_of_an_export_is_a_formula"),
    _row("YAML in setup's files", "texts", "line ends and quotes in an address that `trimtab setup` writes",
         "read back as what was given", _SHOWN,
         _HERE + "test_texts.py::test_what_setup_writes_as_yaml_holds_what_it_was_given"),
    _row("TOML in the token file", "texts", "a node's name with quotes and line ends", "one line, or refused by name",
         "the command's own sentence",
         _HERE + "test_texts.py::test_a_nodes_name_writes_one_line_of_toml_or_is_refused"),
    _row("forged kernel message", "kernel lines", "an XID written to /dev/kmsg by a user (facility 1)",
         "shown as userspace's word; no move rests on it", "the finding says: only userspace says so",
         _HERE + "test_kernel_forgery.py"
         "::test_what_a_user_writes_to_kmsg_takes_no_node_out_and_what_the_kernel_writes_does",
         "tests/collect/test_kernel_records.py::test_userspace_cannot_end_what_the_kernel_began"),
    _row("forged journal entry", "kernel lines", "an entry that journald stamps as kernel transport",
         "believed with facility 0 alone", "the finding says: only userspace says so",
         _HERE + "test_kernel_forgery.py::test_the_journal_says_kernel_of_what_a_user_wrote_and_is_not_believed",
         "tests/collect/test_kernel_records.py"
         "::test_only_a_journal_entry_of_kernel_transport_and_facility_0_speaks_for_the_kernel"),
    _row("somebody else's GPU", "names", "a report that names a GPU of another node by its UUID",
         "it is another GPU, of the node that reports it", "both stand on the board, under their own nodes",
         _HERE + "test_collisions.py::test_a_uuid_of_another_node_is_another_gpu"),
    _row("a redirect with a token", "outward", "a peer that answers 30x to another host", "not followed",
         "the caller's own sentence: answered 30x",
         _HERE + "test_outward.py::test_no_token_and_no_report_follows_a_redirect"),
    _row("SSRF by an exporter", "outward", "a page that redirects to an inner address", "not followed",
         "trimtab_scrape_failures_total, and the beat's sentence",
         _HERE + "test_outward.py::test_an_exporter_leads_the_daemon_nowhere_else"),
    _row("SSRF by a job's hook", "outward", "`trimtab/ask-first: http://169.254.169.254/`",
         "called only below the prefixes that the site allows", "the move waits for a person",
         "tests/issue/test_owners.py::test_a_jobs_own_hook_is_called_only_where_the_site_allows_it",
         "tests/issue/test_owners.py::test_a_jobs_own_hook_is_compared_part_by_part"),
    _row("an exporter's bomb", "outward", "a page of 256 MiB in 1 MiB of gzip", "let go at 16 MiB",
         "trimtab_scrape_failures_total, and the beat's sentence",
         _HERE + "test_outward.py::test_an_exporters_page_that_unpacks_without_end_is_let_go"),
    _row("an answer's bomb", "outward", "a pager's answer that unpacks without end", "cut at 64 KiB",
         "nothing to tell: more of it is not wanted",
         _HERE + "test_outward.py::test_an_answer_that_unpacks_without_end_is_cut"),
    _row("an archive for inspect", "files", "gzip, zstd, zip with `../` in it, given to `trimtab inspect`",
         "never unpacked: told to unpack it first", "the command's own sentence",
         _HERE + "test_files.py::test_no_archive_is_unpacked"),
    _row("an XML bomb for inspect", "files", "entities of entities in `nvidia-smi -q -x`", "not grown, none fetched",
         "the command's own sentence", _HERE + "test_files.py::test_xml_neither_grows_nor_fetches"),
    _row("YAML that makes objects", "files", "`!!python/object/apply` given to `trimtab inspect`",
         "refused or plain text",
         "the command's own sentence", _HERE + "test_files.py::test_yaml_makes_no_objects"),
    _row("a link under setup's root", "files", "a symbolic link where `trimtab setup` writes", "nothing is written",
         "the command's own sentence",
         "tests/setup/test_setup.py::test_nothing_is_written_through_a_link_or_out_of_the_root"),
    _row("replayed PagerDuty call-back", "webhooks", "the same event twice, rightly signed", "acted on once",
         "one act in the audit", "tests/oncall/test_webhook_callback.py::test_it_is_acknowledged_and_twice_is_once"),
    _row("a session planted before signing in", "sessions", "a cookie set by another, then a sign-in",
         "a new session; the planted one is nothing", "`signed in` in the audit",
         "tests/show/test_people.py::test_the_session_cookie_is_strict_and_no_script_reads_it"),
    _row("timing of a comparison", "others' credentials", "tokens that begin rightly",
         "SHA-256 first, then compared in constant time", "counts as any wrong token",
         _HERE + "test_secrets.py::test_no_secret_is_compared_by_equality"),
    _row("a flood of refusals", "others' credentials", "ten thousand guesses, from one address or from all",
         "one line a minute and kind, 60 a minute and 5,000 a day in all", "the count is in the next line",
         "tests/show/test_attempts.py::test_ten_thousand_guesses_leave_a_few_lines_in_the_audit",
         "tests/show/test_attempts.py::test_from_ten_thousand_addresses_too",
         _HERE + "test_secrets.py::test_a_year_of_refusals_fills_no_disk"),
)  # fmt: skip
