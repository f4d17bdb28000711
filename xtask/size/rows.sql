-- 250,000 rows in memory, an index of them, and 400,000 of them looked up by it at random.
create table t(id integer primary key, k integer, s text);
with recursive n(i) as (select 1 union all select i+1 from n where i<250000)
  insert into t select i, (i*7919)%250007,
    printf('%d-%s',i,hex(i*i)||'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz') from n;
create index tk on t(k);
select count(*), sum(length(s)) from t where k between 10000 and 60000;
with recursive n(i,x) as
    (select 1,1 union all select i+1,(x*1103515245+12345)%2147483648 from n where i<400000)
  select sum(length(t.s)) from n join t on t.k=(x/8192)%250007;
