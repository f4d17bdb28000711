//! `zmeld plan`, `zmeld up`, `zmeld down`: what is wanted, from a file, from what
//! is set up already, or recommended; planned; shown; done.

mod measure;
mod random_read;
mod report;
mod run;

pub use report::{PlanBody, RunBody};

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::Args;
use zmeld_config::advice::machine::Machine;
use zmeld_config::advice::{Choice, CodecVerdict, Facts, Recommendation, Recommended, TierKind};
use zmeld_config::{Codec, Comments, Config, Finding, Location, Named, Severity, Size, Swappiness};
use zmeld_linux::service::runs_systemd;
use zmeld_linux::{file, meminfo, shell, Host};
use zmeld_scan::advice::{Advice, AdviceKind};
use zmeld_swap::setup::journal::State;
use zmeld_swap::setup::plan::{OnUnreadable, Options, Plan};
use zmeld_swap::setup::step::Step;
use zmeld_swap::status::config_check::{of_rules, room_for};
use zmeld_swap::status::profile::Profile;

use crate::args::no_machine;
use crate::exit::{Outcome, EXIT_CODES};
use crate::output;

pub use measure::{measure, MeasureArgs, USUAL};
pub use run::{as_the_run_would_end, down, up, would_go_down};

const PLAN_EXAMPLES: &str = "\
Examples:
  zmeld plan                                  what suits this machine, and why
  zmeld plan --tier zram --size 100%          what up would do with that tier
  zmeld plan --config FILE                    what up would do with that file
  zmeld plan --toml --output /etc/zmeld.toml  keep it as the configuration

Nothing is changed on the machine.";

const UP_EXAMPLES: &str = "\
Examples:
  zmeld up                    set up what /etc/zmeld.toml says
  zmeld up --dry-run          only say what would be done
  zmeld up --tier zram --size 50% --codec zstd
  zmeld up --only fast        only the tier that is called fast

A second run with the same configuration changes nothing; one with another
configuration applies the difference. zmeld down takes it all back.";

const DOWN_EXAMPLES: &str = "\
Examples:
  zmeld down              put everything back as it was
  zmeld down --dry-run    only say what would be undone
  zmeld down --only disk  only the tier that is called disk

It refuses where swapped pages do not fit back into RAM, or into a program's
control group, and says how much is missing. After a stop, the next run carries
on. What a killed experiment left is removed, too.";

/// Options of the setup.
#[derive(Args, Default)]
#[command(next_help_heading = "What is wanted")]
pub struct WantedArgs {
    /// Read this file instead of /etc/zmeld.toml and its drop-ins
    #[arg(long, value_name = "FILE", conflicts_with_all = ["tier", "device"])]
    pub config: Option<PathBuf>,

    #[command(flatten)]
    pub tier: TierArgs,

    /// Only the tiers of the configuration that are called so (commas between them)
    #[arg(long, value_name = "TIERS", value_delimiter = ',', value_parser = tier_name)]
    pub only: Option<Vec<String>>,

    /// Replace compressed swap that another tool set up; zmeld down switches that on
    /// again
    #[arg(long)]
    pub take_over: bool,
}

/// A tier, and how what nobody says of it is found.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "What is wanted")]
pub struct TierArgs {
    /// A tier of this kind, whatever the configuration says: zram is the kernel's compressed
    /// device in RAM; zmeld is zmeld's own, which melds identical pages; zswap is a compressed
    /// cache in front of swap on a disk; disk is swap on a partition or in a file
    #[arg(long = "tier", id = "tier", value_parser = names::<TierKind>(), value_name = "KIND")]
    pub kind: Option<TierKind>,

    /// How much the tier holds before compression: 50% (of RAM), 4GiB, min(50%, 4GiB)
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    pub size: Option<Size>,

    /// Codec for pages: a name, or NAME:LEVEL as in zstd:3
    #[arg(long, value_name = "CODEC")]
    pub codec: Option<Codec>,

    /// Place of a disk tier: a partition, or a file and its --size
    #[arg(long, value_name = "PATH")]
    pub device: Option<Location>,

    /// Do not measure codecs on the memory of all processes, which takes up to 10 s
    #[arg(long)]
    pub no_scan: bool,
}

impl TierArgs {
    pub fn is_given(&self) -> bool {
        self.kind.is_some() || self.size.is_some() || self.codec.is_some() || self.device.is_some()
    }
}

impl WantedArgs {
    /// The options that decide what is recommended, and whether it is refused, as they are typed.
    fn typed(&self) -> String {
        let (tier, file) = (&self.tier, self.config.as_deref());
        let options = [
            file.map(|file| format!("--config {}", shell::path(file))),
            tier.kind.map(|kind| format!("--tier {}", kind.name())),
            tier.size
                .map(|size| format!("--size {}", shell::word(&size.to_string()))),
            tier.codec.as_ref().map(|codec| format!("--codec {codec}")),
            tier.device
                .as_ref()
                .map(|place| format!("--device {}", shell::word(&place.to_string()))),
            tier.no_scan.then(|| "--no-scan".to_owned()),
            self.take_over.then(|| "--take-over".to_owned()),
        ];
        let options = options.into_iter().flatten();
        options.map(|option| format!(" {option}")).collect()
    }
}

/// Options for a kind of machine.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "What is wanted")]
pub struct ProfileArgs {
    /// Add what zmeld watch and zmeld-guard are to do on such a machine, and which control
    /// groups they leave alone
    #[arg(long, value_name = "NAME", value_parser = profiles())]
    pub profile: Option<Profile>,
}

/// A tier by its name, or by that of its table.
fn tier_name(text: &str) -> Result<String, std::convert::Infallible> {
    Ok(text.strip_prefix("tier.").unwrap_or(text).to_owned())
}

/// One of the names of its kind.
pub fn names<T: Named + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let names = T::ALL.iter().map(|(name, _)| PossibleValue::new(*name));
    PossibleValuesParser::new(names).try_map(|name| T::named(&name))
}

fn profiles() -> impl TypedValueParser<Value = Profile> {
    let adds = |profile| match profile {
        Profile::Desktop => "reclaim of idle memory, and the guard",
        Profile::Server => "reclaim; databases and caches are left alone",
        Profile::Small | Profile::Pi => "nothing, to spare its processor and its card",
        Profile::VmHost => "reclaim, not of guests; melding, where zmeld.ko is there",
        Profile::Kubernetes => "reclaim, not of pods",
    };
    let names = Profile::ALL.iter();
    let names = names.map(move |(name, profile)| PossibleValue::new(*name).help(adds(*profile)));
    PossibleValuesParser::new(names).try_map(|name| Profile::named(&name))
}

#[derive(Args, Default)]
#[command(after_help = PLAN_EXAMPLES, after_long_help = format!("{PLAN_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct PlanArgs {
    /// Read the files of another machine below this directory, and measure nothing
    #[arg(long, value_name = "DIR", default_value = "/", hide_short_help = true)]
    pub root: PathBuf,

    #[command(flatten)]
    pub wanted: WantedArgs,

    #[command(flatten)]
    pub profile: ProfileArgs,

    #[command(flatten)]
    pub format: output::Format,

    /// Print only the configuration, as a file for /etc/zmeld.toml
    #[arg(long, group = "format", help_heading = "Output")]
    pub toml: bool,

    /// Write what --toml prints to this file, which must not be there yet
    #[arg(long, value_name = "FILE", requires = "toml", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

#[derive(Args, Default)]
#[command(after_help = UP_EXAMPLES, after_long_help = format!("{UP_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct UpArgs {
    #[command(flatten)]
    pub wanted: WantedArgs,

    /// Only say what would be done
    #[arg(long, help_heading = "How")]
    pub dry_run: bool,

    /// Switch swap off for a change even where its pages do not fit back into RAM
    /// or into a control group: the kernel may kill a program for it
    #[arg(long, help_heading = "How")]
    pub force: bool,

    /// For a boot: wait for drives that are not there yet, and do nothing
    /// where nothing is configured
    #[arg(long, help_heading = "How")]
    pub boot: bool,

    /// Print JSON; zmeld schema describes it
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

#[derive(Args, Default)]
#[command(after_help = DOWN_EXAMPLES, after_long_help = format!("{DOWN_EXAMPLES}\n\n{EXIT_CODES}"))]
pub struct DownArgs {
    /// Only these tiers (commas between them)
    #[arg(long, value_name = "TIERS", value_delimiter = ',', value_parser = tier_name)]
    pub only: Option<Vec<String>>,

    /// Only say what would be undone
    #[arg(long)]
    pub dry_run: bool,

    /// Only what an experiment that was killed left
    #[arg(long, conflicts_with = "only")]
    pub experiment: bool,

    /// Even where pages do not fit back into RAM or into a control group: the
    /// kernel may kill a program for it
    #[arg(long)]
    pub force: bool,

    /// For a unit that is stopped: swap files stay, and nothing is done while the
    /// machine is shut down
    #[arg(long)]
    pub boot: bool,

    /// Print JSON; zmeld schema describes it
    #[arg(long)]
    pub json: bool,
}

struct Wanted {
    config: Config,
    /// Why it is so, for what was recommended.
    comments: Comments,
    origin: Origin,
    /// Files without tiers, whose other keys count.
    beside: Option<String>,
    problems: Vec<Finding>,
    measured: CodecVerdict,
    /// Recommendation that it follows, if nobody wrote it.
    recommendation: Option<Recommendation>,
}

impl Wanted {
    fn origin(&self) -> String {
        match &self.beside {
            Some(files) => format!(
                "{files}, which names no tier; tiers: {}",
                self.origin.words()
            ),
            None => self.origin.words().to_owned(),
        }
    }
}

/// Origin of a configuration that nobody wrote.
const RECOMMENDED: &str = "recommended";

enum Origin {
    Files(String),
    /// The run that set up what there is.
    SetUp,
    /// Nobody wrote one.
    Recommended,
}

impl Origin {
    fn words(&self) -> &str {
        match self {
            Origin::Files(files) => files,
            Origin::SetUp => "what is set up",
            Origin::Recommended => RECOMMENDED,
        }
    }
}

/// Decides whether a machine without named tiers gets those that suit it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Occasion {
    Asked,
    /// The machine boots: only what the files say is set up.
    Boot,
}

/// The configuration: the options, the files, what is set up, a recommendation,
/// in this order. Files without tiers say nothing of them: see [`Config::completed`].
fn wanted(
    args: &WantedArgs,
    host: &Host,
    state: Option<&State>,
    occasion: Occasion,
) -> anyhow::Result<Wanted> {
    if args.tier.kind.is_some() || args.tier.device.is_some() {
        return recommended(&args.tier, None, host);
    }
    let file = args.config.as_deref();
    let mut loaded = match occasion {
        Occasion::Boot => Config::load_at_boot(host.root(), file)?,
        Occasion::Asked => Config::load(host.root(), file)?,
    };
    let files: Vec<String> = loaded
        .files
        .iter()
        .map(|it| it.display().to_string())
        .collect();
    let is_there = !files.is_empty();
    let files = files.join(", ");
    let is_empty = is_there && loaded.config == Config::default();
    let empty = is_empty.then(|| mind(format!("{files}: it is empty")));
    let is_set_up = state.filter(|state| state.config.says_of_tiers());
    let mut wanted = match is_set_up {
        _ if loaded.config.says_of_tiers() => {
            of_file(Config::default(), Origin::Files(files.clone()))
        }
        Some(state) => {
            let config = Config::default().completed(state.config.clone());
            of_file(config, Origin::SetUp)
        }
        None if occasion == Occasion::Boot => {
            let origin = match is_there && !is_empty {
                true => Origin::Files(files.clone()),
                false => Origin::Recommended,
            };
            of_file(Config::default(), origin)
        }
        None => recommended(&args.tier, None, host)?,
    };
    if is_there {
        loaded = loaded.completed(std::mem::take(&mut wanted.config));
        wanted.config = loaded.config;
        let is_wrong = |it: &&Finding| it.severity == Severity::Critical;
        if let Some(problem) = loaded.warnings.iter().find(is_wrong) {
            anyhow::bail!("{problem}");
        }
        // Of what was recommended all is said again, with its place.
        wanted.problems.retain(|it| it.id.is_none());
        wanted.problems.splice(0..0, loaded.warnings);
        let left_out = loaded.left_out.into_iter();
        wanted.problems.extend(left_out.map(|(part, it)| Finding {
            severity: Severity::Warning,
            what: format!("{}; {part} is left out", it.what),
            ..it
        }));
        wanted.problems.extend(empty);
        wanted.beside = (!matches!(wanted.origin, Origin::Files(_))).then_some(files);
    }
    if !matches!(wanted.origin, Origin::Recommended) {
        override_tier(&mut wanted.config, &args.tier)?;
    }
    Ok(wanted)
}

/// A configuration as written or set up, without a measurement.
fn of_file(config: Config, origin: Origin) -> Wanted {
    Wanted {
        config,
        comments: Comments::new(),
        origin,
        beside: None,
        problems: Vec::new(),
        measured: CodecVerdict::Not,
        recommendation: None,
    }
}

/// `--size` and `--codec` over what the first tier says that has them.
fn override_tier(config: &mut Config, args: &TierArgs) -> anyhow::Result<()> {
    let mut tiers = config.tiers.iter_mut();
    let first = tiers.find_map(|tier| tier.kind.ram_mut());
    match first {
        Some(device) => {
            device.size = args.size.unwrap_or(device.size);
            if let Some(codec) = &args.codec {
                device.codec = vec![codec.clone()];
            }
            Ok(())
        }
        None if args.size.is_some() || args.codec.is_some() => {
            anyhow::bail!("--size and --codec are for a tier in RAM, and there is none: add --tier")
        }
        None => Ok(()),
    }
}

/// Something to be told that no line of a file is to blame for.
fn mind(what: String) -> Finding {
    Finding::new(Severity::Warning, String::new(), what)
}

/// A note for an ordinary user: another user's plan would differ.
fn of_ordinary_user(measured: &CodecVerdict) -> &'static str {
    match measured {
        CodecVerdict::Not => {
            "nothing was measured: reading other users' memory needs root; sudo zmeld plan measures"
        }
        _ => {
            "only your own processes were measured: reading other users' memory needs root; sudo \
             zmeld plan measures all, and may come to another plan"
        }
    }
}

fn recommended(args: &TierArgs, profile: Option<Profile>, host: &Host) -> anyhow::Result<Wanted> {
    let machine = Machine::read(host)?;
    let refused = |what| zmeld_swap::setup::Error::Refused { what };
    let checked = profile.map_or(Ok(()), |profile| profile.check(host, machine.ram_bytes));
    checked.map_err(refused)?;
    // A disk tier does not compress.
    let is_disk = args
        .kind
        .map_or(args.device.is_some(), TierKind::is_on_disk);
    let measured = match args.no_scan || is_disk || !host.is_here() {
        true => CodecVerdict::Not,
        false => {
            // If zswap is advised or asked for, its codec counts.
            let of_zswap = will_be_zswap(args, &machine, &own_swaps(host));
            let codec = args.codec.clone().or(of_zswap);
            measure::measured(codec.as_ref(), &machine)?
        }
    };
    let choice = Choice {
        kind: args.kind,
        size: args.size,
        codec: args.codec.clone(),
        place: args.device.clone(),
    };
    let found = Recommended::new(&machine, &choice, &measured, &own_swaps(host));
    let found = found.map_err(refused)?;
    let (mut config, mut comments) = (found.config, found.comments);
    if config.zswap().is_some() {
        keep_disks(host, &mut config, &mut comments);
    }
    if let Some(profile) = profile {
        profile.add_to(host, &mut config, &mut comments);
    }
    let doubt = profile.and_then(|it| it.doubt(host, machine.ram_bytes));
    // Which warnings are meant holds for the machine, whatever tier is asked for. A file
    // that is wrong says nothing here.
    if let Ok(loaded) = Config::load(host.root(), None) {
        config.accept = loaded.config.accept;
    }
    let mut problems = config.check();
    problems.extend(doubt.map(mind));
    if let Some(problem) = problems.iter().find(|it| it.severity == Severity::Critical) {
        anyhow::bail!("{problem}");
    }
    if !args.no_scan && !is_disk && !rustix::process::geteuid().is_root() {
        problems.push(mind(of_ordinary_user(&measured).to_owned()));
    }
    Ok(Wanted {
        config,
        comments,
        origin: Origin::Recommended,
        beside: None,
        problems,
        measured,
        recommendation: found.recommendation,
    })
}

/// zswap stands in front of swap on a disk: what zmeld swaps to stays.
fn keep_disks(host: &Host, config: &mut Config, comments: &mut Comments) {
    let applied = zmeld_swap::setup::applied::read(host).ok().flatten();
    let Some(applied) = applied else { return };
    for (tier, priority) in applied.config.areas().into_iter().rev() {
        let name = tier.name.as_str();
        if !tier.kind.is_on_disk() || config.tier(name).is_some() {
            continue;
        }
        let why = "it is set up already, and zswap stands in front of it";
        comments.insert(format!("tier.{name}"), why.to_owned());
        let mut tier = tier.clone();
        // No page has to leave it.
        tier.swap.priority = Some(zmeld_config::Number(priority));
        config.tiers.insert(0, tier);
    }
}

/// The codec of zswap, where that is what will be recommended.
fn will_be_zswap(args: &TierArgs, machine: &Machine, own_swaps: &[String]) -> Option<Codec> {
    let zswap = machine.zswap.as_ref()?;
    let facts = Facts::new(machine, 0, &CodecVerdict::Not, own_swaps);
    let advised = zmeld_config::advice::recommend(&facts, &Choice::default()).kind;
    let is_it = args.kind.unwrap_or(advised).is_in_front();
    let compressor = zswap.compressor_to_name().unwrap_or(&zswap.compressor);
    compressor.parse().ok().filter(|_| is_it)
}

/// The swap areas that zmeld set up. None if that cannot be read: `plan` and `status`
/// say why.
pub fn own_swaps(host: &Host) -> Vec<String> {
    let applied = zmeld_swap::setup::applied::read(host).ok().flatten();
    let tiers = applied.map(|applied| applied.tiers).unwrap_or_default();
    tiers.into_iter().filter_map(|tier| tier.area).collect()
}

/// Says what `zmeld up` does with that recommendation here, as the last word of a scan.
/// `of_all`: it follows from what `zmeld up` would measure too.
pub fn what_up_does(host: &Host, to: &Recommendation, of_all: bool) -> Advice {
    let words = to.words();
    let note = |text| Advice::new(AdviceKind::Note, "setup", text);
    if let Some(missing) = &to.missing {
        return note(format!(
            "{} would suit this machine, and zmeld up cannot set that up here: {missing}.",
            report::capital(&words)
        ));
    }
    if !of_all {
        let what = match to.sizing {
            Some(_) => {
                "The command below sets up swap of that size and codec. Its memory limit follows \
                 from the memory of all processes, as size and codec do without options."
                    .to_owned()
            }
            None => format!(
                "For memory like this: {words}. Without options zmeld up goes by the memory of \
                 all processes."
            ),
        };
        return Advice {
            commands: vec![as_command(to)],
            ..note(what)
        };
    }
    let configured = Config::load(host.root(), None);
    if configured.is_ok_and(|loaded| loaded.config.says_of_tiers()) {
        return note(format!(
            "Without a configuration zmeld up would set up {words}; here it does what \
             /etc/zmeld.toml says, which zmeld plan shows."
        ));
    }
    if !own_swaps(host).is_empty() {
        return note(format!(
            "zmeld up has set this machine up already (zmeld status); anew it would set up \
             {words}: {}.",
            as_command(to)
        ));
    }
    if let Some(compared) = to.compared() {
        return note(format!(
            "{compared}. sudo zmeld up --take-over puts that in its place, zmeld down puts the old \
             one back."
        ));
    }
    // Codec and size stand above it.
    let what = match to.sizing {
        Some(_) => format!("{} so", to.kind.name()),
        None => words,
    };
    let at_boot = match runs_systemd(host) {
        true => ", sudo zmeld enable does at every boot, too",
        false => "",
    };
    let text = format!(
        "sudo zmeld up sets up {what}{at_boot}; zmeld plan shows each step, zmeld down takes them \
         back."
    );
    Advice::new(AdviceKind::Do, "setup", text)
}

/// The command that sets up just that.
fn as_command(to: &Recommendation) -> String {
    let mut command = format!("sudo zmeld up --tier {}", to.kind.name());
    if let Some(sizing) = &to.sizing {
        command.push_str(&format!(" --size {}%", sizing.size_percent));
    }
    if let Some(codec) = &to.codec {
        command.push_str(&format!(" --codec {codec}"));
    }
    command
}

/// Options of its plan: `options`, those of the arguments, and what is measured.
fn measured(
    wanted: &Wanted,
    args: &WantedArgs,
    host: &Host,
    state: Option<&State>,
    options: Options,
    occasion: Occasion,
) -> anyhow::Result<Options> {
    let is_boot = occasion == Occasion::Boot;
    // A tier that a boot goes on without is none any more, whatever the unit says.
    let is_there = |name: &String| !is_boot || wanted.config.tier(name).is_some();
    let only = args.only.clone();
    Ok(Options {
        only: only.map(|only| only.into_iter().filter(is_there).collect()),
        take_over: args.take_over,
        expected_ratio: wanted.measured.ratio(),
        swappiness: match host.is_here() {
            true => measure::swappiness(host, &wanted.config, state)?,
            false => None,
        },
        // A driver that is asked for here and now is had, or refused.
        no_stand_ins: args.tier.kind.is_some(),
        at_boot: is_boot,
        ..options
    })
}

/// The plan for what is wanted, and at boot what cannot be planned of it. Nothing is measured.
fn planned(
    wanted: &Wanted,
    host: &Host,
    state: Option<&State>,
    options: Options,
) -> anyhow::Result<(Plan, Option<zmeld_swap::setup::Error>)> {
    let is_boot = options.at_boot;
    let (refused, plan) = Plan::make(host, &wanted.config, state, &options)?;
    // A fault of one tier costs a machine no other at boot.
    let (mut plan, refused) = match (zmeld_swap::setup::Error::planned(refused), plan) {
        (Some(err), plan) if !is_boot || plan.is_err() => return Err(err.into()),
        (refused, plan) => (plan?, refused),
    };
    // Problems of the configuration itself come first.
    plan.problems.splice(0..0, wanted.problems.iter().cloned());
    Ok((plan, refused))
}

pub fn plan(args: &PlanArgs) -> anyhow::Result<Outcome> {
    planned_for(args).map(|(_, outcome)| outcome)
}

/// [`plan`], and the configuration that is planned for.
pub fn planned_for(args: &PlanArgs) -> anyhow::Result<(Config, Outcome)> {
    let host = Host::at(&args.root);
    if !host.exists(meminfo::PATH) {
        return Err(no_machine(&args.root));
    }
    let state = readable_state(&host)?;
    let wanted = match args.profile.profile {
        // Whatever the files say.
        Some(profile) => recommended(&args.wanted.tier, Some(profile), &host)?,
        None => wanted(&args.wanted, &host, state.as_ref(), Occasion::Asked)?,
    };
    let options = Options {
        doubt: OnUnreadable::Recorded,
        ..Options::default()
    };
    let (asked, state) = (&args.wanted, state.as_ref());
    let options = measured(&wanted, asked, &host, state, options, Occasion::Asked)?;
    let (mut plan, _) = planned(&wanted, &host, state, options)?;
    let of_room = room_for(&host, &plan);
    plan.problems.extend(of_room);
    plan.problems.extend(of_rules(&host, &plan.config));
    let mut comments = wanted.comments.clone();
    comments.extend(measured_swappiness(&plan));
    let toml = wanted.config.to_toml(&comments);
    // It ends as the run that it is for would.
    let outcome = match plan.refuse() {
        Ok(()) => Outcome::Done,
        Err(_) => Outcome::Refused,
    };
    if args.toml {
        run::tell_problems(&plan);
        match &args.output {
            None => output::print(&toml)?,
            Some(path) if outcome == Outcome::Refused => {
                output::say(format_args!("{} is not written", path.display()));
            }
            // Nobody's configuration is overwritten, nor cut short.
            Some(path) => file::create(path, toml.as_bytes(), None)?,
        }
        return Ok((wanted.config, outcome));
    }
    let is_left_to_up = !host.is_here()
        && plan.config.tunables.swappiness == Some(Swappiness::Auto)
        && measured_swappiness(&plan).is_none();
    let measured_there = match is_left_to_up {
        true => Some(
            host.read_optional("/proc/sys/vm/swappiness")?
                .unwrap_or_default(),
        ),
        false => None,
    };
    let is_undecided = wanted.recommendation.is_some() && args.profile.profile.is_none();
    let profile = is_undecided.then(|| Profile::of(&host, plan.machine.ram_bytes));
    let body = report::PlanBody {
        origin: &wanted.origin(),
        done: plan.is_done() && measured_there.is_none(),
        measured_there,
        recommendation: wanted.recommendation.as_ref(),
        profile: profile.map(Profile::name),
        profile_asked: args.profile.profile,
        options: args.wanted.typed(),
        is_here: host.is_here(),
        profile_hint: profile.and_then(|profile| profile.hint(&host, &wanted.config)),
        unmeasured: wanted.measured.why_none(),
        toml: &toml,
        expected_ratio: wanted.measured.ratio(),
        experiment: match host.is_here() {
            true => run::experiment(&host)?,
            false => None,
        },
        plan: &plan,
    };
    output::show(
        &args.format,
        || report::plan_document(&body),
        || report::steps_table(&body),
        ("zmeld.plan", 1),
        &body,
    )?;
    Ok((wanted.config, outcome))
}

/// The comment that says which value `swappiness = "auto"` stands for.
fn measured_swappiness(plan: &Plan) -> Option<(String, String)> {
    let steps = plan.groups.iter().flat_map(|group| &group.steps);
    let mut values = steps.filter_map(|planned| match &planned.step {
        Step::SetValue(set) if set.path.ends_with("swappiness") => Some(set.value.as_str()),
        _ => None,
    });
    let value = values.next()?;
    let is_auto = plan.config.tunables.swappiness == Some(Swappiness::Auto);
    is_auto.then(|| {
        (
            "tunables.swappiness".to_owned(),
            format!("auto: {value} here"),
        )
    })
}

/// The state, which an ordinary user may not be able to read.
pub fn readable_state(host: &Host) -> anyhow::Result<Option<State>> {
    State::read(host).with_context(|| {
        format!(
            "cannot tell what is set up ({})",
            Path::new(zmeld_swap::run_folder::STATE).display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zmeld_config::advice::ModulePresence;

    fn last_word(zram: ModulePresence, of_all: bool) -> Advice {
        let root = tempfile::tempdir().unwrap();
        let mut machine = Machine {
            ram_bytes: 4 << 30,
            ..Machine::default()
        };
        machine.zram.presence = zram;
        machine.zmeld.presence = ModulePresence::Absent;
        let facts = Facts::new(&machine, 4096, &CodecVerdict::Not, &[]);
        let to = zmeld_config::advice::recommend(&facts, &Choice::default());
        what_up_does(&Host::at(root.path()), &to, of_all)
    }

    #[test]
    fn a_scan_promises_only_what_up_can_do() {
        let ready = last_word(ModulePresence::Ready, true);
        assert!(ready.text.starts_with("sudo zmeld up sets up"), "{ready:?}");
        let part = last_word(ModulePresence::Ready, false);
        assert_eq!(part.commands, ["sudo zmeld up --tier zram --size 50%"]);
        assert!(!part.text.contains("limit of"), "{part:?}");
        let none = last_word(ModulePresence::Absent, true);
        assert!(!none.text.contains("zmeld up sets up"), "{none:?}");
        for words in ["cannot set that up here", "no zram", "zmeld.ko"] {
            assert!(none.text.contains(words), "{words}: {none:?}");
        }
    }
}
